// The editor: the kernel's text, errors under their lines, and beside each line its share of the time.

import { defaultKeymap, history, historyKeymap, isolateHistory } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { HighlightStyle, LRLanguage, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { EditorView, GutterMarker, gutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { parser } from "@lezer/python";
import type { Language, LineMessage, SourceRow } from "./protocol";

class Heat extends GutterMarker {
  constructor(readonly row: SourceRow) {
    super();
  }
  override eq(other: Heat): boolean {
    return this.row.share === other.row.share && this.row.cause === other.row.cause;
  }
  override toDOM(): Node {
    const mark = document.createElement("span");
    mark.textContent = `${(100 * this.row.share).toFixed(0)} %`;
    mark.title = `${mark.textContent} of the cycles: ${this.row.cause}`;
    mark.style.setProperty("--share", String(this.row.share));
    return mark;
  }
}

const python = LRLanguage.define({ parser, languageData: { commentTokens: { line: "#" } } });

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.controlKeyword], color: "light-dark(#8250a8, #d2a8ff)" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "light-dark(#0b5d8f, #79c0ff)" },
  { tag: [tags.number, tags.bool], color: "light-dark(#0f6b3a, #7ee2a8)" },
  { tag: tags.string, color: "light-dark(#9a3412, #ffb38a)" },
  { tag: [tags.comment, tags.processingInstruction, tags.meta], color: "light-dark(#57606a, #a3adba)" },
]);

class Access extends GutterMarker {
  override toDOM(): Node {
    const mark = document.createElement("span");
    mark.textContent = "▸";
    mark.title = "Lanes and sectors of this line";
    return mark;
  }
}

const setAccesses = StateEffect.define<number[]>();

const access = new Access();

// The lines that access memory, which move with the text until the next answer.
const accesses = StateField.define<RangeSet<Access>>({
  create: () => RangeSet.empty,
  update(marks, change) {
    for (const effect of change.effects) {
      if (!effect.is(setAccesses)) continue;
      const lines = effect.value.filter((line) => line <= change.state.doc.lines);
      return RangeSet.of(lines.map((line) => access.range(change.state.doc.line(line).from)), true);
    }
    return marks.map(change.changes);
  },
});

const setHeat = StateEffect.define<SourceRow[]>();

const heat = StateField.define<RangeSet<Heat>>({
  create: () => RangeSet.empty,
  update(marks, change) {
    for (const effect of change.effects) {
      if (!effect.is(setHeat)) continue;
      const lines = effect.value.filter((row) => row.line >= 1 && row.line <= change.state.doc.lines && row.share >= 0.005);
      const ranges = lines.map((row) => new Heat(row).range(change.state.doc.line(row.line).from));
      return RangeSet.of(ranges, true);
    }
    return marks.map(change.changes);
  },
});

export class Editor {
  private readonly view: EditorView;
  private readonly syntax = new Compartment();

  // `looked` is told the line of the cursor, and whether its mark of an access was pressed.
  constructor(
    parent: HTMLElement, text: string, reading: boolean, changed: (text: string) => void, again: () => void, looked: (line: number, pressed: boolean) => void,
  ) {
    const extensions = [
      lineNumbers(), history(), indentOnInput(), bracketMatching(), syntaxHighlighting(colours), lintGutter(),
      this.syntax.of(cpp()), heat, gutter({ class: "heat", markers: (view) => view.state.field(heat) }),
      accesses, gutter({
        class: "accesses", markers: (view) => view.state.field(accesses), domEventHandlers: {
          click: (view, block) => {
            looked(view.state.doc.lineAt(block.from).number, true);
            return true;
          },
        },
      }),
      EditorState.readOnly.of(reading),
      keymap.of([{ key: "Mod-Enter", run: () => (again(), true) }, ...defaultKeymap, ...historyKeymap, ...lintKeymap]),
      EditorView.contentAttributes.of({ "aria-label": "Kernel" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) changed(update.state.doc.toString());
        if (update.selectionSet) looked(update.state.doc.lineAt(update.state.selection.main.head).number, false);
      }),
    ];
    this.view = new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
  }

  set text(text: string) {
    if (text === this.view.state.doc.toString()) return;
    // undo brings the text before it back, and nothing more
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text }, annotations: isolateHistory.of("full") });
  }

  set language(language: Language) {
    this.view.dispatch({ effects: this.syntax.reconfigure(language === "cuda" ? cpp() : language === "python" ? python : []) });
  }

  set messages(messages: LineMessage[]) {
    const { doc } = this.view.state;
    const found = messages.filter((each) => each.line >= 1 && each.line <= doc.lines);
    const diagnostics = found.map((each): Diagnostic => {
      const line = doc.line(each.line);
      return { from: line.from + /^\s*/.exec(line.text)![0].length, to: line.to, severity: each.severity, message: each.message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }

  // Puts the cursor at the beginning of a line.
  go(line: number): void {
    const { doc } = this.view.state;
    this.view.dispatch({ selection: { anchor: doc.line(Math.min(line, doc.lines)).from }, scrollIntoView: true });
    this.view.focus();
  }

  set rows(rows: SourceRow[]) {
    this.view.dispatch({ effects: setHeat.of(rows) });
  }

  set accesses(lines: number[]) {
    this.view.dispatch({ effects: setAccesses.of(lines) });
  }
}
