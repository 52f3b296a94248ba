// Files on the page: chosen, dropped or pasted ones on their way, and those of a message.

import { upload } from "/api.js";
import { el, size } from "/words.js";

const MAX_FILES = 10;

/** The files that the next message of a thread will send. Each is uploaded as soon as it is chosen. */
export class Tray {
  constructor(box, { complain }) {
    this.box = box;
    this.complain = complain;
    this.agent = null;
    this.entries = [];
  }

  /** Files that were chosen for one thread stay with it. */
  show(agent) {
    this.agent = agent;
    this.draw();
  }

  get shown() {
    return this.entries.filter((entry) => entry.agent === this.agent);
  }

  get isEmpty() {
    return this.shown.length === 0;
  }

  add(files) {
    if (!this.agent) return;
    for (const file of files) {
      if (this.shown.length === MAX_FILES) {
        this.complain({ message: `A message takes at most ${MAX_FILES} files.` });
        break;
      }
      const entry = { file, name: file.name || "pasted picture.png", agent: this.agent, share: 0 };
      this.entries.push(entry);
      this.begin(entry);
    }
    this.draw();
  }

  begin(entry) {
    entry.problem = null;
    const { done, stop } = upload(entry.file, entry.name, entry.agent, (share) => {
      entry.share = share;
      this.draw();
    });
    entry.stop = stop;
    entry.done = done.then((attachment) => {
      entry.attachment = attachment;
      this.draw();
      return attachment;
    });
    entry.done.catch((error) => {
      entry.problem = error.message;
      this.draw();
    });
  }

  remove(entry) {
    entry.stop?.();
    this.entries = this.entries.filter((other) => other !== entry);
    this.draw();
  }

  /** Takes what is there for a message; the tray is empty afterwards. */
  take() {
    const taken = this.shown;
    this.entries = this.entries.filter((entry) => !taken.includes(entry));
    this.draw();
    return taken;
  }

  draw() {
    this.box.hidden = this.isEmpty;
    this.box.replaceChildren(...this.shown.map((entry) => {
      const state = entry.problem ?? (entry.attachment ? size(entry.file.size) : `${Math.round(entry.share * 100)} %`);
      const chip = el("li", `chip${entry.problem ? " bad" : ""}`, {},
        el("span", "name", { dir: "auto" }, entry.name), el("small", "", {}, state));
      if (entry.problem) chip.append(el("button", "link", { type: "button", onclick: () => this.begin(entry) }, "Try again"));
      chip.append(el("button", "icon", { type: "button", "aria-label": `Do not send ${entry.name}`, onclick: () => this.remove(entry) }, "×"));
      return chip;
    }));
  }
}

/** A file of a message: a picture, something to play, or a link. */
export function fileBox(file) {
  const href = `/api/v1/chat/attachments/${encodeURIComponent(file.id)}`;
  if (!file.available) return el("p", "file gone", { dir: "auto" }, `${file.filename} (no longer kept)`);
  const link = (className, ...inside) => el("a", className, { href, target: "_blank", rel: "noopener" }, ...inside);
  const name = el("bdi", "", {}, file.filename);
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.mime)) {
    return link("picture", el("img", "", { src: href, alt: file.filename, loading: "lazy" }));
  }
  if (file.mime.startsWith("audio/") || file.mime.startsWith("video/")) {
    const player = el(file.mime.startsWith("audio/") ? "audio" : "video", "", { src: href, controls: "", preload: "metadata" });
    return el("div", "player", {}, player, link("file", "↓ ", name, ` · ${size(file.bytes)}`));
  }
  return link("file", "↓ ", name, ` · ${size(file.bytes)}`);
}

/** Names of a message's files, for where there is one line. */
export function names(message) {
  return (message.attachments ?? []).map((file) => file.filename).join(", ");
}

/** Lets files be dropped on an element and pasted into a text. */
export function accept(target, text, take) {
  const hasFiles = (e) => [...(e.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0;
  const over = (on) => target.classList.toggle("dropping", on);
  target.addEventListener("dragenter", (e) => {
    if (!hasFiles(e)) return;
    e.preventDefault();
    depth += 1;
    over(true);
  });
  target.addEventListener("dragover", (e) => {
    if (hasFiles(e)) e.preventDefault();
  });
  target.addEventListener("dragleave", (e) => {
    if (!hasFiles(e)) return;
    depth -= 1;
    if (depth <= 0) over(false);
  });
  target.addEventListener("drop", (e) => {
    if (!hasFiles(e)) return;
    e.preventDefault();
    depth = 0;
    over(false);
    take([...e.dataTransfer.files]);
  });
  text.addEventListener("paste", (e) => {
    const files = [...(e.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    e.preventDefault();
    take(files);
  });
}
