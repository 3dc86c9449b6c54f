// Lanes and sectors of the memory instructions of a line: what the report shows of them, by the same template.

import { useEffect, useState } from "preact/hooks";
import { Part } from "./part";
import { problemOf } from "./protocol";

interface Asked {
  of: string; // of what the line is a line of
  line: number;
  ask: () => Promise<string>; // HTML without scripts
  there: boolean;
}

export function Accesses({ of, line, ask, there }: Asked) {
  const [found, setFound] = useState("");
  const [problem, setProblem] = useState("");

  useEffect(() => {
    if (!there) return;
    let current = true;
    ask().then((html) => {
      if (!current) return;
      setFound(html);
      setProblem("");
    }, (error: unknown) => current && setProblem(problemOf(error).what));
    return () => {
      current = false;
    };
  }, [of, line, there]);

  return (
    <>
      {problem && <p role="alert">{problem}</p>}
      <Part html={found} label={`Accesses of line ${line}`} hidden={!there} />
    </>
  );
}
