// Questions, permission prompts and questions cards: how they are drawn while they are open, what their
// controls answer, and how they ended. Text from agents and people only ever becomes text nodes.

import { el, prose } from "/words.js";

const MAX_TEXT = 4000;

/** What was chosen on cards that are open, by message id, so that a row may be drawn anew. */
const chosen = new Map();

const CLOSED = {
  timeout: "Expired: nobody answered in time.",
  withdrawn: "Expired: the agent took it back.",
  agent_gone: "Expired: the agent was stopped or removed.",
  dismissed: "Dismissed.",
};

const UNSEEN = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\ufe00-\ufe0f]/gu;

/** The text with every character that is not seen as itself shown as `\u{…}`. */
export const exact = (text) => text.replace(UNSEEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

export const isCard = (message) => message.kind === "ask" || message.kind === "permission";

/**
 * What a card shows below the agent's name. `act(message, verb, body)` answers or dismisses; it resolves
 * when the card is settled and rejects with why it is not.
 */
export function card(message, act) {
  const box = el("div", `card ${message.state}`);
  const questions = message.input?.questions;
  if (message.permission) box.append(...wanted(message.permission));
  else if (!questions || (message.state !== "open" && !message.answer?.answers)) box.append(prose(message.text.trimEnd()));
  if (message.state === "open") {
    box.append(open(message, act));
    return box;
  }
  chosen.delete(message.id);
  box.append(...ended(message));
  return box;
}

function wanted(permission) {
  const who = permission.agent_type ? `Its subagent ${permission.agent_type} wants to use ` : "Wants to use ";
  const parts = [
    el("p", "wants", {}, who, el("b", "", {}, exact(permission.tool))),
    el("pre", "summary", { tabindex: "0", "aria-label": "What it is about" }, el("code", "", {}, exact(permission.summary))),
  ];
  if (permission.input !== undefined) {
    const whole = exact(JSON.stringify(permission.input, null, 2));
    parts.push(el("details", "", {},
      el("summary", "", {}, permission.truncated ? "The input, which was too large to keep whole" : "The whole input"),
      el("pre", "", { tabindex: "0" }, el("code", "", {}, whole))));
  }
  if (permission.in_terminal === false) {
    parts.push(el("p", "hint", {}, "There is no dialog in the terminal while this is open."));
  }
  return parts;
}

// ---- open --------------------------------------------------------------------------------------

function open(message, act) {
  const state = chosen.get(message.id) ?? { answers: {}, key: null };
  chosen.set(message.id, state);
  const problem = el("p", "problem", { role: "alert" });
  const form = el("form", "answer", { novalidate: "", tabindex: "-1" });
  const all = el("fieldset", "all");
  form.append(all, problem, el("p", "left", {}, ...countdown(message.deadline)));

  const send = async (verb, body) => {
    problem.textContent = "";
    // What is disabled loses the keys; the form keeps them, so that they are not lost with it.
    const before = document.activeElement;
    const inside = form.contains(before);
    if (inside) form.focus({ preventScroll: true });
    all.disabled = true;
    // The same answer again is the same answer; another one has another id.
    const said = JSON.stringify(body);
    if (state.said !== said) Object.assign(state, { said, key: act.freshId() });
    try {
      await act(message, verb, verb === "answer" ? { ...body, client_msg_id: state.key } : {});
    } catch (error) {
      all.disabled = false;
      if (inside) before.focus({ preventScroll: true });
      problem.textContent = error.message;
    }
  };
  const { permission, input } = message;
  if (permission) decide(all, send, state);
  else if (input?.questions) ask(all, form, send, message, state, problem);
  else if (input?.type === "buttons") tap(all, form, send, message, state, problem);
  else if (["radio", "checkboxes", "text"].includes(input?.type)) pick(all, form, send, message, state, problem);
  else all.append(el("p", "hint", {}, "This page cannot answer it. Reload it, or use the agent’s terminal."));
  return form;
}

function decide(all, send, state) {
  const reason = textField("What the agent is told when you deny (may be empty)", state.answers, "reason");
  const deny = () => send("answer", { values: ["deny"], text: reason.field.value.trim() });
  all.append(
    el("div", "choices", {},
      el("button", "primary", { type: "button", onclick: () => send("answer", { values: ["allow"], text: "" }) }, "Allow"),
      el("button", "quiet", { type: "button", onclick: deny }, "Deny")),
    reason.label);
}

function tap(all, form, send, message, state, problem) {
  const options = message.input.options ?? [];
  all.append(el("div", "choices", {}, ...options.map((option) =>
    el("button", "quiet", { type: "button", onclick: () => send("answer", { values: [option.value], text: "" }) },
      exact(option.label), ...about(option)))));
  if (!message.input.allow_text) return;
  const own = textField("Or your own answer", state.answers, "text", { placeholder: message.input.placeholder });
  all.append(own.label, el("button", "primary", { type: "submit" }, "Send"));
  form.onsubmit = (e) => {
    e.preventDefault();
    const text = own.field.value.trim();
    if (!text) return void (problem.textContent = "Write something first.");
    send("answer", { values: [], text });
  };
}

function pick(all, form, send, message, state, problem) {
  const { type, options = [], allow_text: allowText, placeholder } = message.input;
  const one = question(message.id, {
    id: "answer", options, multi: type === "checkboxes", text: type === "text" || allowText,
    legend: message.text, hideLegend: true, placeholder,
  }, state);
  all.append(one.fieldset, el("button", "primary", { type: "submit" }, "Send"));
  form.onsubmit = (e) => {
    e.preventDefault();
    const answer = one.read();
    // Ticking nothing may be an answer; the daemon says whether it is a good one.
    if (type !== "checkboxes" && isEmpty(answer)) {
      return void (problem.textContent = type === "text" ? "Write something first." : "Choose first.");
    }
    send("answer", answer);
  };
}

function ask(all, form, send, message, state, problem) {
  const parts = message.input.questions.map((q) => question(message.id, {
    id: q.id, options: q.options, multi: q.multi, text: q.allow_text,
    legend: `${exact(q.header)}: ${q.question}`,
  }, state));
  all.append(...parts.map((part) => part.fieldset), el("div", "choices", {},
    el("button", "primary", { type: "submit" }, "Send"),
    el("button", "quiet", { type: "button", onclick: () => send("dismiss", {}) }, "Dismiss")));
  form.onsubmit = (e) => {
    e.preventDefault();
    const missing = parts.find((part) => isEmpty(part.read()));
    if (missing) {
      problem.textContent = "Every question needs an answer.";
      return missing.fieldset.querySelector("input, textarea").focus();
    }
    const answers = Object.fromEntries(parts.map((part, i) => [message.input.questions[i].id, part.read()]));
    send("answer", { answers });
  };
}

const isEmpty = ({ values, text }) => values.length === 0 && !text;

/** The controls of one question, and how to read them. */
function question(messageId, { id, options, multi, text, legend, hideLegend, placeholder }, state) {
  const kept = (state.answers[id] ??= { values: [], text: "", other: false });
  const fieldset = el("fieldset", "question", {}, el("legend", hideLegend ? "hidden" : "", { dir: "auto" }, legend));
  const name = `${messageId} ${id}`;
  const inputs = options.map((option) => {
    const input = el("input", "", { type: multi ? "checkbox" : "radio", name, value: option.value });
    input.checked = kept.values.includes(option.value);
    fieldset.append(el("label", "option", {}, input,
      el("span", "", { dir: "auto" }, exact(option.label), ...about(option))));
    return input;
  });
  let other = null;
  let own = null;
  if (text && options.length > 0 && !multi) {
    other = el("input", "", { type: "radio", name, value: "" });
    other.checked = kept.other;
    fieldset.append(el("label", "option", {}, other, el("span", "", {}, "Other")));
  }
  if (text) {
    const caption = options.length === 0 ? "Your answer" : multi ? "And your own words" : "Your own answer";
    own = textField(caption, kept, "text", { placeholder, long: options.length === 0 });
    own.field.addEventListener("input", () => { if (other && own.field.value) other.checked = true; });
    fieldset.append(own.label);
  }
  const read = () => {
    const values = inputs.filter((input) => input.checked).map((input) => input.value);
    const takesText = own && (!other || other.checked);
    return { values, text: takesText ? own.field.value.trim() : "" };
  };
  fieldset.addEventListener("input", () => {
    kept.values = read().values;
    kept.other = other?.checked ?? false;
  });
  return { fieldset, read };
}

function about(option) {
  return option.description ? [el("small", "", { dir: "auto" }, option.description)] : [];
}

function textField(caption, kept, key, { placeholder = "", long = false } = {}) {
  const shape = long ? { rows: 2 } : { type: "text" };
  const field = el(long ? "textarea" : "input", "own", { maxlength: MAX_TEXT, dir: "auto", placeholder, ...shape });
  field.value = kept[key] ?? "";
  field.addEventListener("input", () => { kept[key] = field.value; });
  return { field, label: el("label", "own", {}, el("span", "", {}, caption), field) };
}

// ---- deadlines ---------------------------------------------------------------------------------

function countdown(deadline) {
  return deadline ? [el("span", "countdown", { "data-deadline": deadline }, left(deadline))] : [];
}

/** Time left, in whole seconds and from two minutes on in whole minutes. */
export function left(deadline, now = Date.now()) {
  const seconds = Math.max(0, Math.ceil((Date.parse(deadline) - now) / 1000));
  if (seconds === 0) return "time is up";
  return seconds < 120 ? `${seconds} s left` : `${Math.floor(seconds / 60)} min left`;
}

setInterval(() => {
  if (document.hidden) return;
  for (const span of document.querySelectorAll("[data-deadline]")) {
    const text = left(span.dataset.deadline);
    if (span.textContent !== text) span.textContent = text;
  }
}, 1000);

// ---- settled -----------------------------------------------------------------------------------

function ended(message) {
  if (message.state !== "answered") {
    const why = CLOSED[message.closed_reason]
      ?? (message.permission ? "Expired: the agent’s terminal has the question now." : "Expired.");
    return [el("p", "settled closed", {}, why)];
  }
  const { answer = {} } = message;
  if (answer.answers) {
    const rows = (message.input?.questions ?? []).flatMap((q) => {
      const { values = [], text = "" } = answer.answers[q.id] ?? {};
      return [el("dt", "", { dir: "auto" }, q.question), el("dd", "", { dir: "auto" }, said(values, text))];
    });
    return [el("dl", "", {}, ...rows), el("p", "settled", {}, `✓ Answered${by(message)}`)];
  }
  return [el("p", "settled", { dir: "auto" }, `✓ ${what(message)}${by(message)}`)];
}

function what({ answer = {}, permission }) {
  const { values = [], labels, text = "" } = answer;
  if (values.length === 1 && values[0] === "terminal") return "Answered";
  if (!permission) return said(labels ?? values, text);
  const decision = values.includes("allow") ? "Allowed" : "Denied";
  return text ? `${decision}: ${exact(text)}` : decision;
}

function said(labels, text) {
  return [labels.map(exact).join(", "), text].filter(Boolean).join(" · ") || "(no selection)";
}

function by({ answered_by: who, answer }) {
  if (who === "terminal" || (answer?.values?.length === 1 && answer.values[0] === "terminal")) return " · in the agent’s terminal";
  if (who === "operator") return " · by you, the operator";
  if (who?.startsWith("app:")) return ` · in the app on ${who.slice(4)}`;
  return who ? ` · by ${who}` : "";
}

/** How a card ended, in a line. */
export const ending = (message) => ended(message).map((part) => part.textContent).join(" ");
