// What states are called on the page, and how texts become elements. Text from agents and people only
// ever becomes text nodes.

const WAITING = {
  queue: "waits for an earlier message",
  start: "waits for the agent to start",
  turn: "waits for the running turn to end",
  dialog: "waits for a dialog in the terminal to be answered",
  draft: "waits for a draft in the terminal to be sent or cleared",
  person: "waits for you: the agent cannot start alone",
  transcription: "is being transcribed…",
};

const FAILED = {
  agent_unreachable: "the agent could not be started or reached",
  dialog_open: "a dialog stayed open in the terminal",
  timeout: "it waited too long",
  unproven: "handed over, but the agent never showed that it has it. It may have been read",
  too_large: "it is larger than the agent can take",
  cancelled: "taken back",
  transcription: "the voice note could not be transcribed",
  transport: "the way to the agent broke",
};

/** The line under a message of ours, how it is meant, and what may be done about it. */
export function standing(message) {
  switch (message.state) {
    case "sending":
      return { text: "sending…" };
    case "unsent":
      return { text: `not sent: ${message.problem}`, tone: "bad", action: "send" };
    case "pending": {
      const waiting = message.delivery?.waiting_for;
      const tone = ["dialog", "draft", "person"].includes(waiting) ? "warn" : "";
      return { text: WAITING[waiting] ?? "on its way", tone, action: "cancel" };
    }
    case "failed": {
      const reason = FAILED[message.failed_reason] ?? "not delivered";
      const tone = message.failed_reason === "cancelled" ? "" : "bad";
      // What cannot be heard can still be handed over as it is.
      const also = message.kind === "voice" && !message.transcript ? "file" : undefined;
      return { text: reason, tone, action: "retry", also };
    }
    case "delivered":
      return { text: "delivered" };
    default:
      return { text: "" };
  }
}

/** What an agent is doing: a word, and the class of its dot. */
export function doing(agent) {
  if (!agent) return { text: "removed", dot: "gone" };
  if (agent.suspended) return { text: "asleep", dot: "stopped" };
  if (agent.status === "stopped") return { text: "stopped", dot: "stopped" };
  if (agent.status === "starting" && agent.activity !== "needs_input") return { text: "starting…", dot: "busy" };
  if (agent.activity === "needs_input") return { text: "needs you", dot: "needs" };
  if (agent.activity === "working") return { text: "working…", dot: "busy" };
  if (agent.activity === "idle") return { text: "idle", dot: "idle" };
  return { text: "running", dot: "idle" };
}

const SAME_DAY = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const SHORT_DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export const clock = (ts) => SAME_DAY.format(new Date(ts));

export function day(ts) {
  const date = new Date(ts);
  const days = Math.round((startOfDay(new Date()) - startOfDay(date)) / 86400000);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return DAY.format(date);
}

/** The clock for today, the date before. */
export function shortly(ts) {
  const date = new Date(ts);
  return startOfDay(date).getTime() === startOfDay(new Date()).getTime() ? clock(ts) : SHORT_DAY.format(date);
}

function startOfDay(date) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate());
}

export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** An element with a class, attributes and children; strings become text nodes. */
export function el(tag, className, attributes = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A message's text, with fenced and inline code set apart. */
export function prose(text) {
  const body = el("div", "text", { dir: "auto" });
  const parts = text.split(/^```[^\n]*\n([\s\S]*?)^```[ \t]*$\n?/m);
  parts.forEach((part, i) => {
    if (i % 2 === 1) {
      body.append(el("pre", "", { tabindex: "0" }, el("code", "", {}, part.replace(/\n$/, ""))));
      return;
    }
    part.split(/`([^`\n]+)`/).forEach((piece, j) => {
      if (piece) body.append(j % 2 === 1 ? el("code", "", {}, piece) : piece);
    });
  });
  return body;
}
