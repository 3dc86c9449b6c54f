// The launch form: what the kernel's signature asks for. A value that nobody has given is shown as a suggestion.

import type { Field, Language, LaunchForm, Question, Start } from "./protocol";

const LANGUAGES: Record<Language, string> = { cuda: "CUDA C++", ptx: "PTX", python: "Python (Triton, Numba)" };

type Change = (part: Partial<Question>) => void;

// `wrong` is the place of an error: the name of a dimension, or `argument` with its number.
export function Form({ form, question, start, wrong, change }: {
  form: LaunchForm | null; question: Question; start: Start; wrong: string; change: Change;
}) {
  const dimension = (field: Field) => (
    <Value key={field.name} field={field} text={question[field.name as "grid"]} wrong={wrong === field.name} change={(text) => change({ [field.name]: text })} />
  );
  const argument = (field: Field, at: number) => (
    <Value key={field.name} field={field} text={question.args[field.name] ?? ""} wrong={`${wrong} `.startsWith(`argument ${at + 1} `)} hint={field.given ? "" : field.about}
      change={(text) => change({ args: { ...question.args, [field.name]: text } })} />
  );
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <Choice label="Language" value={question.language} choices={start.languages.map((name) => [name, LANGUAGES[name]])}
        change={(language) => change({ language: language as Language })} />
      <Choice label="GPU" value={question.gpu} choices={start.gpus.map((gpu) => [gpu.name, gpu.title])} change={(gpu) => change({ gpu })} />
      <Choice label="Model" value={question.model} choices={start.models.map((name) => [name, name])} change={(model) => change({ model })} />
      {question.overrides.length > 0 && (
        <p>
          GPU changed: {question.overrides.join(", ")}{" "}
          <button type="button" onClick={() => change({ overrides: [] })}>Undo the changes</button>
        </p>
      )}
      {form && form.kernels.length > 1 && (
        <Choice label="Kernel" value={form.kernel} choices={form.kernels.map((name) => [name, name])} change={(kernel) => change({ kernel })} />
      )}
      {form && form.dimensions.length > 0 && <p class="quiet">An empty field uses the value in grey. Each change is predicted at once.</p>}
      {form?.dimensions.map(dimension)}
      {form?.parameters.map(argument)}
      {form && form.unused.length > 0 && <p>Not a parameter any more: {form.unused.join(", ")}</p>}
    </form>
  );
}

function Choice({ label, value, choices, change }: {
  label: string; value: string; choices: [string, string][]; change: (value: string) => void;
}) {
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        {choices.map(([name, title]) => <option key={name} value={name}>{title}</option>)}
      </select>
    </label>
  );
}

function Value({ field, text, wrong, hint = "", change }: {
  field: Field; text: string; wrong: boolean; hint?: string; change: (text: string) => void;
}) {
  return (
    <label title={field.about}>
      <span>{field.name} <small class="quiet">{field.type}</small></span>
      <input value={text} placeholder={field.value} spellcheck={false} aria-invalid={wrong} onInput={(event) => change(event.currentTarget.value)} />
      {hint && <small class="quiet">{hint}</small>}
    </label>
  );
}
