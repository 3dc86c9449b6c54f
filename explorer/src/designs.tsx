// GPUs side by side: other GPUs, and the question's own with other values of its keys, predicted as a slider moves.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Asking, type Choices, type Design, type KeyRow, type Prediction, type Settings, lookUp, problemOf } from "./protocol";
import type { Side } from "./stack";
import { type Axis, WhatIf } from "./what_if";

interface Props {
  run: string | null; // the answer whose process is asked; null while there is none
  gpu: string;
  overrides: string[];
  own: Prediction;
  choices: Choices;
  asking: Asking;
  adopt?: (overrides: string[]) => void; // predicts the GPU of the sliders as a version, where there are versions
}

interface Asked {
  label: string;
  design: Design;
}

export function Designs({ run, gpu, overrides, own, choices, asking, adopt }: Props) {
  const [sliders, setSliders] = useState<Settings[]>([]);
  const [known, setKnown] = useState<KeyRow[]>([]);
  const [chosen, setChosen] = useState<Record<string, string>>({}); // the values that differ from the GPU's own, by key
  const [others, setOthers] = useState<string[]>([]);
  const [sides, setSides] = useState<Side[]>([]);
  const waiting = useRef<{ asked: Asked[]; run: string } | null>(null);
  const busy = useRef(false);

  useEffect(() => {
    let current = true;
    const shown = sliders.length > 0 ? sliders.map((each) => each.key) : choices.sliders;
    lookUp(asking.settings(gpu, overrides, shown), (found) => current && setSliders(found));
    lookUp(asking.keys(gpu, overrides), (found) => current && setKnown(found));
    setChosen({});
    return () => {
      current = false;
    };
  }, [gpu, overrides.join()]);

  useEffect(() => {
    const changed = Object.entries(chosen).map(([key, value]) => `${key}=${value}`);
    const asked: Asked[] = [];
    if (changed.length > 0) asked.push({ label: "changed", design: { gpu, overrides: with_(overrides, changed) } });
    if (changed.length > 1)
      asked.push(...changed.map((each) => ({ label: `only ${each}`, design: { gpu, overrides: with_(overrides, [each]) } })));
    asked.push(...others.map((name) => ({ label: name, design: { gpu: name, overrides: [] } })));
    setSides((before) => asked.map(({ label }) => before.find((side) => side.label === label) ?? { label, prediction: null }));
    waiting.current = run === null || asked.length === 0 ? null : { asked, run };
    void send();
  }, [run, own, chosen, others]);

  // One request at a time; of those that wait, the last one wins.
  async function send(): Promise<void> {
    const next = waiting.current;
    if (busy.current || next === null) return;
    busy.current = true;
    waiting.current = null;
    try {
      const found = await asking.predict(next.run, next.asked.map((each) => each.design));
      const sides = next.asked.map(({ label }, at): Side => {
        const answer = found[at]!;
        return "error" in answer ? { label, prediction: null, problem: answer.error.what } : { label, prediction: answer };
      });
      if (waiting.current === null) setSides(sides);
    } catch (error) {
      const problem = problemOf(error).what;
      if (waiting.current === null) setSides(next.asked.map(({ label }) => ({ label, prediction: null, problem })));
    } finally {
      busy.current = false;
      void send();
    }
  }

  const set = ({ key, settings, own }: Axis, value: string) => {
    const { [key]: _, ...rest } = chosen;
    setChosen(value === settings[own] || value.trim() === "" ? rest : { ...rest, [key]: value });
  };
  const add = (key: string) => lookUp(asking.settings(gpu, overrides, [key]), (found) => setSliders((before) => [...before, ...found]));
  const unused = known.filter((row) => !sliders.some((each) => each.key === row.key));
  const axes = sliders.map((each): Axis => {
    const row = known.find(({ key }) => key === each.key);
    return { ...each, label: each.key, ...(row && { quiet: row.live ? row.meaning : `${row.meaning}; caches simulated again` }) };
  });

  return (
    <>
      {run === null && <p>The sliders wait until the kernel has been run.</p>}
      <WhatIf axes={axes} values={chosen} given={overrides.filter((text) => !(keyOf(text) in chosen))} change={set} reset={() => setChosen({})} exact open={false} caption="GPUs side by side"
        sides={[{ label: `${gpu}${overrides.length ? " (changed)" : ""}`, prediction: own }, ...sides]}>
        {adopt && Object.keys(chosen).length > 0 && (
          <button type="button" onClick={() => adopt(with_(overrides, Object.entries(chosen).map(([key, value]) => `${key}=${value}`)))}>
            Predict this GPU as a version
          </button>
        )}
        <Adder label="Add a key" choices={unused.map((row) => [row.key, `${row.key}: ${row.meaning}`])} add={add} />
        <Adder label="Add a GPU" choices={choices.gpus.filter((each) => each.name !== gpu && !others.includes(each.name)).map((each) => [each.name, each.title])}
          add={(name) => setOthers([...others, name])} />
        {others.map((name) => (
          <button key={name} type="button" onClick={() => setOthers(others.filter((each) => each !== name))}>Remove {name}</button>
        ))}
      </WhatIf>
    </>
  );
}

const keyOf = (text: string): string => text.split("=", 1)[0]!.trim();

// `changed` over `overrides`: a key is set once.
function with_(overrides: string[], changed: string[]): string[] {
  const named = new Set(changed.map(keyOf));
  return [...overrides.filter((text) => !named.has(keyOf(text))), ...changed];
}

function Adder({ label, choices, add }: { label: string; choices: [string, string][]; add: (name: string) => void }) {
  return (
    <label>
      {label}{" "}
      <select value="" onChange={(event) => { add(event.currentTarget.value); event.currentTarget.value = ""; }}>
        <option value="" disabled>choose …</option>
        {choices.map(([name, title]) => <option key={name} value={name}>{title}</option>)}
      </select>
    </label>
  );
}
