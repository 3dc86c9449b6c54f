// The results of the folder: a table that any column sorts, one shown as its report, two compared; shown again when a file changes.

import { useEffect, useState } from "preact/hooks";
import { resultPage, results } from "./calls";
import { duration } from "./figures";
import { type Found, type FoundResult, lookUp, problemOf } from "./protocol";

const LOOK_MS = 2000;
const COLUMNS: [keyof FoundResult, string][] = [
  ["kernel", "Kernel"], ["gpu", "GPU"], ["seconds", "Time"], ["bound_by", "Bound by"], ["model", "Model"], ["changed", "When"],
];

interface Open {
  names: string;
  stamp: string;
  page: string;
  problem: string;
}

export function Results({ shown }: { shown: boolean }) {
  const [found, setFound] = useState<Found | null>(null);
  const [order, setOrder] = useState<{ by: keyof FoundResult; down: boolean }>({ by: "changed", down: true });
  const [ticked, setTicked] = useState<string[]>([]);
  const [wanted, setWanted] = useState<string[]>([]);
  const [open, setOpen] = useState<Open | null>(null);

  useEffect(() => {
    if (!shown) return;
    const look = () => lookUp(results(), setFound);
    look();
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, [shown]);

  const files = wanted.flatMap((ident) => found?.results.filter((each) => each.ident === ident) ?? []);
  const stamp = files.map((each) => each.stamp).join(" ");
  useEffect(() => {
    if (wanted.length === 0) return;
    let current = true;
    const names = files.map((each) => each.name).join(" and ");
    resultPage(wanted).then(
      (page) => current && setOpen({ names, stamp, page, problem: "" }),
      (error: unknown) => current && setOpen({ names, stamp, page: "", problem: problemOf(error).what }),
    );
    return () => {
      current = false;
    };
  }, [wanted.join(), stamp]);

  if (found === null) return <p>Looking for results …</p>;
  const rows = sorted(found.results, order.by, order.down);
  const tick = (ident: string, on: boolean) => setTicked(on ? [...ticked, ident].slice(-2) : ticked.filter((each) => each !== ident));
  return (
    <>
      {rows.length === 0 ? (
        <p>No results yet: they are files with the output of <code>warpsight predict --json</code>, and the folders of <code>warpsight sweep</code>.</p>
      ) : (
        <>
          <div class="scroll" tabIndex={0} role="group" aria-label="Table of results">
            <table>
              <caption>Results; tick two to compare them</caption>
              <thead>
                <tr>
                  <th scope="col">Compare</th>
                  {COLUMNS.map(([by, title]) => (
                    <th key={by} scope="col" aria-sort={order.by === by ? (order.down ? "descending" : "ascending") : undefined}>
                      <button type="button" onClick={() => setOrder({ by, down: order.by === by && !order.down })}>{title}</button>
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((each) => (
                  <tr key={each.ident}>
                    <td>
                      {each.comparable && (
                        <input type="checkbox" aria-label={`Compare ${each.name}`} checked={ticked.includes(each.ident)}
                          onChange={(event) => tick(each.ident, event.currentTarget.checked)} />
                      )}
                    </td>
                    <td><button type="button" onClick={() => setWanted([each.ident])}>{each.kernel}</button> <small>{each.name}</small></td>
                    <td>{each.gpu}</td>
                    <td>{each.seconds === null ? "" : duration(each.seconds)}</td>
                    <td>{each.bound_by}</td>
                    <td>{each.model}</td>
                    <td><time>{new Date(1000 * each.changed).toLocaleString()}</time></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <p><button type="button" disabled={ticked.length !== 2} onClick={() => setWanted(ticked)}>Compare the two ticked results</button></p>
        </>
      )}
      {found.others.length > 0 && (
        <details>
          <summary>{found.others.length} other .json files, not results</summary>
          <ul>{found.others.map((each) => <li key={each.name}>{each.name}: {each.why}</li>)}</ul>
        </details>
      )}
      {open?.problem && <p role="alert">{open.names}: {open.problem}</p>}
      {open?.page && <iframe key={`${open.page} ${open.stamp}`} title={`Report of ${open.names}`} src={open.page} sandbox="allow-scripts" />}
    </>
  );
}

// Numbers by size, names as people do: gemm<9> before gemm<10>. What has no value comes last.
function sorted(rows: FoundResult[], by: keyof FoundResult, down: boolean): FoundResult[] {
  const order = (first: FoundResult, second: FoundResult): number => {
    const [one, other] = [first[by], second[by]];
    if (one === null || other === null) return (one === null ? 1 : 0) - (other === null ? 1 : 0);
    const sign = down ? -1 : 1;
    return sign * (typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true }));
  };
  return [...rows].sort(order);
}
