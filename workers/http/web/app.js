// The page: what it knows, how that is drawn, and what buttons do.

import { ApiError, call, follow, freshId } from "/api.js";
import { card, ending, isCard } from "/cards.js";
import { hideReminders, showReminders } from "/reminders.js";
import { Tray, accept, fileBox, names } from "/files.js";
import { clock, day, doing, el, prose, shortly, standing } from "/words.js";

const $ = (id) => document.getElementById(id);
const PAGE = 50;
/** A reconnect shorter than this is not worth a banner. */
const BANNER_AFTER = 1500;

const known = {
  agents: new Map(),
  threads: new Map(),
  /** Of each opened thread: its messages by id, and whether there are earlier ones. */
  pages: new Map(),
  current: null,
};

const api = (agent) => `/api/v1/chat/${encodeURIComponent(agent)}`;

// ---- start -------------------------------------------------------------------------------------

async function start() {
  try {
    const state = await call("GET", "/api/v1/state");
    take(state);
    $("chat").hidden = false;
    follow(`${state.meta.epoch}:${state.meta.seq}`, { hello, event, lost, refused });
    // Names of agents need no escapes, so what is in the fragment is one or it is not.
    const wanted = location.hash.slice(1);
    const first = known.threads.has(wanted) ? wanted : wide() ? [...known.threads.keys()][0] : null;
    if (first) await open(first);
    else drawAll();
  } catch (error) {
    if (error.status === 401) return showLogin();
    $("chat").hidden = false;
    banner(`${error.message} Trying again…`);
    setTimeout(start, 2000);
    return;
  }
  banner(null);
}

function showLogin() {
  $("chat").hidden = true;
  $("login").hidden = false;
  $("token").focus();
}

const wide = () => matchMedia("(min-width: 720px)").matches;

// ---- what is known -----------------------------------------------------------------------------

function take(state) {
  known.agents = new Map(state.agents.map((agent) => [agent.name, agent]));
  known.threads = new Map(state.threads.map((thread) => [thread.agent, thread]));
}

function page(agent) {
  if (!known.pages.has(agent)) known.pages.set(agent, { messages: new Map(), hasMore: false, loaded: false });
  return known.pages.get(agent);
}

function put(message) {
  const messages = page(message.agent).messages;
  // The row that the server made replaces the one that we drew while sending.
  if (message.client_msg_id) messages.delete(message.client_msg_id);
  messages.set(message.id, message);
}

/** Takes a message as an answer has it: the stream may have brought a newer form of it already. */
function putIfAbsent(message) {
  if (!page(message.agent).messages.has(message.id)) put(message);
}

/** Oldest first. Rows that the server has not seen yet come last. */
function sorted(agent) {
  const mine = (m) => m.state === "sending" || m.state === "unsent";
  return [...page(agent).messages.values()].sort((a, b) => mine(a) - mine(b) || (a.id < b.id ? -1 : 1));
}

// ---- events ------------------------------------------------------------------------------------

let bannerTimer = null;

function hello({ resume }) {
  clearTimeout(bannerTimer);
  bannerTimer = null;
  banner(null);
  if (resume !== "ok") reload();
}

async function reload() {
  try {
    take(await call("GET", "/api/v1/state"));
    known.pages.clear();
    if (known.current) await load(known.current);
    loadReminders();
  } catch (error) {
    refused(error);
  }
  drawAll();
}

function lost() {
  bannerTimer ??= setTimeout(() => banner("Reconnecting…"), BANNER_AFTER);
}

function refused(error) {
  if (error.status === 401) showLogin();
}

async function event(kind, data) {
  if (kind === "chat.message" || kind === "chat.updated") {
    const { message } = data;
    put(message);
    const thread = known.threads.get(message.agent);
    if (!thread) return reload();
    if (kind === "chat.message") {
      thread.last_message = message;
      if (message.direction === "out" && message.kind !== "system") thread.unread += 1;
    } else if (thread.last_message?.id === message.id) {
      thread.last_message = message;
    }
    drawThreads();
    if (message.agent === known.current) {
      drawMessages();
      markRead();
    }
  } else if (kind === "reminder.changed") {
    if (data.agent === known.current) loadReminders();
  } else if (kind === "chat.read") {
    const thread = known.threads.get(data.agent);
    if (thread) thread.unread = data.unread;
    drawThreads();
  } else if (data.agent?.name) {
    known.agents.set(data.agent.name, data.agent);
    if (!known.threads.has(data.agent.name)) return reload();
    // It may have been removed, which only the state says.
    if (kind === "agent_stopped") take(await call("GET", "/api/v1/state").catch(() => snapshot()));
    drawThreads();
    if (data.agent.name === known.current) drawHead();
  }
}

function snapshot() {
  return { agents: [...known.agents.values()], threads: [...known.threads.values()] };
}

// ---- drawing -----------------------------------------------------------------------------------

function banner(text) {
  $("banner").textContent = text ?? "";
  $("banner").hidden = !text;
}

function drawAll() {
  document.body.classList.toggle("in-thread", known.current !== null);
  drawThreads();
  drawHead();
  drawMessages();
}

function drawThreads() {
  const rank = (t) => [t.pinned ? 0 : 1, -Date.parse(t.last_message?.ts ?? 0)];
  const threads = [...known.threads.values()].sort((a, b) => {
    const [x, y] = [rank(a), rank(b)];
    return x[0] - y[0] || x[1] - y[1] || (a.agent < b.agent ? -1 : 1);
  });
  const focused = document.activeElement?.dataset?.agent;
  $("thread-list").replaceChildren(...threads.map(threadRow));
  if (focused) document.querySelector(`[data-agent="${CSS.escape(focused)}"]`)?.focus();
  $("no-threads").hidden = threads.length > 0;
  const unread = threads.reduce((sum, thread) => sum + thread.unread, 0);
  document.title = `${unread ? `(${unread}) ` : ""}${known.current ? `${known.current} · ` : ""}Leo`;
}

function threadRow(thread) {
  const { text, dot } = doing(known.agents.get(thread.agent));
  const last = thread.last_message;
  const said = last ? (last.direction === "in" ? `${sender(last)}: ` : "") + (last.text || (last.transcript || names(last))) : text;
  const row = el("button", "thread", { type: "button", "data-agent": thread.agent, onclick: () => open(thread.agent) },
    el("span", `dot ${dot}`, { title: text }),
    el("span", "who", {}, thread.agent),
    el("span", "when", {}, last ? shortly(last.ts) : ""),
    el("span", "said", { dir: "auto" }, said.slice(0, 200)));
  if (thread.unread) row.append(el("span", "unread", { "aria-label": `${thread.unread} unread` }, String(thread.unread)));
  if (thread.agent === known.current) row.setAttribute("aria-current", "true");
  return el("li", "", {}, row);
}

function drawHead() {
  const name = known.current;
  $("thread").hidden = name === null;
  if (name === null) return;
  const agent = known.agents.get(name);
  const { text, dot } = doing(agent);
  $("name").textContent = name;
  const details = agent ? ` · ${agent.harness}${agent.model ? ` ${agent.model}` : ""}` : "";
  $("doing").replaceChildren(el("span", `dot ${dot}`), ` ${text}${details}`);
  const needs = agent?.activity === "needs_input";
  $("needs").hidden = !needs;
  if (needs) {
    const how = `leo agent attach ${name}`;
    const what = agent.waiting_for || "The agent waits for you in its terminal.";
    $("needs").replaceChildren(prose(what));
    // The sentence may say how by itself.
    if (!what.includes(how)) $("needs").append("Open it with ", el("code", "", {}, how), ".");
  }
  const actions = [];
  if (agent?.activity === "working") actions.push(["Interrupt", "interrupt"]);
  if (agent?.activity === "idle" && agent.status === "running") {
    // The demo agent remembers nothing that could be summarised.
    if (agent.harness !== "demo") actions.push(["Compact", "compact"]);
    actions.push(["Clear", "clear"]);
  }
  if (agent?.status === "stopped") actions.push(["Start", "start"]);
  else if (agent) actions.push(["Stop", "stop"]);
  $("actions").replaceChildren(...actions.map(([label, verb]) =>
    el("button", "quiet", { type: "button", onclick: (e) => act(e.currentTarget, name, verb) }, label)));
  $("text").placeholder = `Message ${name}`;
  $("composer").hidden = !agent;
}

/** Whether the newest message was in view when the person last moved: what grows later keeps it there. */
let atEnd = true;

function isAtEnd() {
  const scroll = $("scroll");
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
}

function stayAtEnd() {
  if (atEnd) $("scroll").scrollTop = $("scroll").scrollHeight;
}

function drawMessages() {
  if (known.current === null) return;
  const { loaded, hasMore } = page(known.current);
  const scroll = $("scroll");
  const stick = atEnd;
  const messages = sorted(known.current);
  $("older").hidden = !hasMore;
  $("empty").hidden = !loaded || messages.length > 0;
  reconcile(messages);
  if (stick) scroll.scrollTop = scroll.scrollHeight;
  $("newest").hidden = stick;
}

/** Draws only rows that are new or changed, so that a selection and a reader's place stay. */
function reconcile(messages) {
  const list = $("messages");
  const rows = new Map([...list.children].map((row) => [row.dataset.key, row]));
  let previous = null;
  let said = null;
  let cursor = list.firstElementChild;
  const keep = (key, version, make) => {
    let row = rows.get(key);
    rows.delete(key);
    if (!row || row.dataset.version !== version) {
      const fresh = make();
      fresh.dataset.key = key;
      fresh.dataset.version = version;
      if (row) {
        if (cursor === row) cursor = fresh;
        // Whoever was in a card that was settled meanwhile stays where it was.
        const inside = row.contains(document.activeElement);
        row.replaceWith(fresh);
        if (inside) {
          fresh.tabIndex = -1;
          fresh.focus({ preventScroll: true });
        }
      }
      row = fresh;
    }
    if (row === cursor) cursor = row.nextElementSibling;
    else list.insertBefore(row, cursor);
  };
  for (const message of messages) {
    const date = day(message.ts);
    if (!previous || day(previous.ts) !== date) {
      keep(`day ${date}`, "1", () => el("li", "day", {}, date));
    }
    let joined = previous && previous.direction === message.direction && previous.kind === message.kind
      && previous.sender === message.sender && previous.task === message.task
      && Date.parse(message.ts) - Date.parse(previous.ts) < 120000 && day(previous.ts) === date;
    // A reply says what it answers when that is not what stands right above it.
    const to = message.reply_to ? page(message.agent).messages.get(message.reply_to) : null;
    const answers = to && said?.id !== to.id && said?.reply_to !== to.id ? to : null;
    joined &&= !answers;
    const version = JSON.stringify([joined, answers?.id, { ...message, sending: message.sending?.length }]);
    keep(message.client_msg_id ?? message.id, version, () => messageRow(message, joined, answers));
    previous = message;
    if (message.kind !== "system") said = message;
  }
  for (const row of rows.values()) row.remove();
}

// Whose words they are: an API client speaks on both sides of the thread.
function sender(message) {
  // A task's prompt is nobody's message.
  if (message.task && message.direction === "in") return `Task ${message.task}`;
  if (message.sender?.startsWith("client:")) return `${message.sender.slice(7)} (API client)`;
  if (message.sender === "operator") return "You";
  return message.sender ?? (message.direction === "in" ? "You" : message.agent);
}

function messageRow(message, joined, answers) {
  if (message.kind === "system") return el("li", "note", { dir: "auto" }, message.text, " ", el("time", "", {}, clock(message.ts)));
  const mine = message.direction === "in";
  const row = el("li", `message ${mine ? "mine" : "theirs"}${joined ? " joined" : ""}`);
  if (!joined) {
    const who = sender(message);
    const task = message.task && !mine ? el("span", "", {}, `task ${message.task} `) : "";
    const by = el("p", "by", {}, el("b", "", {}, who), " ", task, el("time", "", { datetime: message.ts }, clock(message.ts)));
    if (answers) by.append(el("span", "answers", { dir: "auto" }, `↳ ${(answers.text || answers.transcript || names(answers)).slice(0, 120)}`));
    row.append(by);
  }
  const bubble = el("div", "bubble");
  if (isCard(message)) bubble.append(card(message, settle));
  else if (message.text.trim()) bubble.append(prose(message.text.trimEnd()));
  for (const file of message.attachments ?? []) bubble.append(fileBox(file));
  for (const { name } of message.sending ?? []) bubble.append(el("p", "file", { dir: "auto" }, name));
  if (message.transcript) bubble.append(el("blockquote", "heard", { dir: "auto" }, message.transcript));
  row.append(bubble);
  const { text, tone, action, also } = mine ? standing(message) : {};
  if (text) {
    const line = el("p", `standing ${tone ?? ""}`, {}, text);
    if (action) line.append(" ", actionButton(message, action));
    if (also) line.append(" ", actionButton(message, also));
    row.append(line);
  }
  return row;
}

/** Answers or dismisses a card. When somebody else was first, theirs is shown. */
async function settle(message, verb, body) {
  try {
    putSettled(await call("POST", `${api(message.agent)}/messages/${message.id}/${verb}`, body));
  } catch (error) {
    refused(error);
    if (error.code !== "already_settled" || !error.data) throw error;
    putSettled(error.data);
    complain({ message: `Somebody was first. ${ending(error.data)}` });
  }
  drawMessages();
}
settle.freshId = freshId;

/** Takes a settled card as an answer has it, unless the stream has settled it already. */
function putSettled(message) {
  const known = page(message.agent).messages.get(message.id);
  if (!known || known.state === "open") put(message);
}

function actionButton(message, action) {
  const label = { cancel: "Take back", retry: "Send again", send: "Try again", file: "Send as a file" }[action];
  return el("button", "link", { type: "button", onclick: async (e) => {
    if (action === "send") return submit(message);
    e.currentTarget.disabled = true;
    try {
      const [verb, body] = action === "file" ? ["retry", { as_file: true }] : [action];
      await call("POST", `${api(message.agent)}/messages/${message.id}/${verb}`, body);
    } catch (error) {
      complain(error);
    }
    drawMessages();
  } }, label);
}

// ---- doing -------------------------------------------------------------------------------------

async function open(agent) {
  keepDraft();
  known.current = agent;
  history.replaceState(null, "", `#${agent}`);
  $("text").value = sessionStorage.getItem(`draft ${agent}`) ?? "";
  hideReminders($("reminders"));
  tray.show(agent);
  drawAll();
  loadReminders();
  // Only what is shown has a height.
  grow();
  if (!page(agent).loaded) await load(agent);
  atEnd = true;
  stayAtEnd();
  $("newest").hidden = true;
  if (wide()) $("text").focus();
  markRead();
}

function loadReminders() {
  if (known.current) showReminders($("reminders"), api(known.current), complain);
}

async function load(agent, before) {
  const cursor = before ? `&before=${encodeURIComponent(before)}` : "";
  try {
    const { messages, has_more: hasMore } = await call("GET", `${api(agent)}/messages?limit=${PAGE}${cursor}`);
    messages.forEach(putIfAbsent);
    Object.assign(page(agent), { hasMore, loaded: true });
  } catch (error) {
    complain(error);
  }
  if (agent === known.current) drawMessages();
}

async function loadOlder() {
  const scroll = $("scroll");
  const first = sorted(known.current)[0];
  if (!first || $("older").disabled) return;
  $("older").disabled = true;
  const fromEnd = scroll.scrollHeight - scroll.scrollTop;
  await load(known.current, first.id);
  scroll.scrollTop = scroll.scrollHeight - fromEnd;
  $("older").disabled = false;
}

async function markRead() {
  const thread = known.threads.get(known.current);
  if (!thread?.unread || document.hidden) return;
  const last = sorted(known.current).findLast((m) => m.direction === "out");
  if (!last) return;
  try {
    const { unread } = await call("POST", `${api(known.current)}/read`, { message_id: last.id });
    thread.unread = unread;
    drawThreads();
  } catch (error) {
    refused(error);
  }
}

async function act(button, agent, verb) {
  if (verb === "clear" && !confirm(`Clear the context of ${agent}? It begins anew; this thread stays.`)) return;
  button.disabled = true;
  try {
    const after = await call("POST", `/api/v1/agents/${encodeURIComponent(agent)}/${verb}`);
    known.agents.set(agent, after);
  } catch (error) {
    complain(error);
  }
  drawThreads();
  drawHead();
}

function send(e) {
  e?.preventDefault();
  const text = $("text").value;
  if ((!text.trim() && tray.isEmpty) || !known.current) return;
  const id = freshId();
  const sending = tray.take();
  $("text").value = "";
  keepDraft();
  grow();
  atEnd = true;
  stayAtEnd();
  submit({
    id, client_msg_id: id, agent: known.current, direction: "in", kind: "text", text,
    ts: new Date().toISOString(), attachments: [], state: "sending", sending,
  });
}

/** Sends a row that only the page knows; its id makes that harmless to repeat. */
async function submit(row) {
  const { agent, text, client_msg_id } = row;
  page(agent).messages.set(client_msg_id, { ...row, state: "sending" });
  drawMessages();
  try {
    const attachments = [];
    for (const entry of row.sending ?? []) {
      if (entry.problem) tray.begin(entry);
      attachments.push((await entry.done).id);
    }
    putIfAbsent(await call("POST", `${api(agent)}/messages`, { text, attachments, client_msg_id }));
    page(agent).messages.delete(client_msg_id);
  } catch (error) {
    refused(error);
    // It may have been accepted all the same, and then be here already by the stream.
    if (page(agent).messages.has(client_msg_id)) {
      const problem = error instanceof ApiError ? error.message : String(error);
      page(agent).messages.set(client_msg_id, { ...row, state: "unsent", problem });
    }
  }
  drawMessages();
}

let complaint = null;

function complain(error) {
  refused(error);
  banner(error.message);
  clearTimeout(complaint);
  complaint = setTimeout(() => banner(null), 6000);
}

function keepDraft() {
  if (!known.current) return;
  const text = $("text").value;
  if (text) sessionStorage.setItem(`draft ${known.current}`, text);
  else sessionStorage.removeItem(`draft ${known.current}`);
}

function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight + 2}px`;
}

const tray = new Tray($("tray"), { complain });
accept($("thread"), $("text"), (files) => tray.add(files));
$("attach").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", (e) => {
  tray.add([...e.target.files]);
  // The same file can be chosen again.
  e.target.value = "";
});
$("composer").addEventListener("submit", send);
$("text").addEventListener("input", () => { grow(); keepDraft(); });
$("text").addEventListener("keydown", (e) => {
  // Enter that ends an input method's composition is not ours.
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing && e.keyCode !== 229) send(e);
});
$("back").addEventListener("click", () => {
  keepDraft();
  known.current = null;
  history.replaceState(null, "", location.pathname);
  drawAll();
});
$("older").addEventListener("click", loadOlder);
$("scroll").addEventListener("scroll", () => {
  const scroll = $("scroll");
  atEnd = isAtEnd();
  if (atEnd) $("newest").hidden = true;
  if (scroll.scrollTop < 60 && !$("older").hidden) loadOlder();
});
// Pictures and players get their height when they arrive, and the composer grows and shrinks.
for (const kind of ["load", "loadedmetadata"]) $("messages").addEventListener(kind, stayAtEnd, true);
new ResizeObserver(stayAtEnd).observe($("scroll"));
$("newest").addEventListener("click", () => {
  $("scroll").scrollTop = $("scroll").scrollHeight;
  $("newest").hidden = true;
});
document.addEventListener("visibilitychange", markRead);

start();
