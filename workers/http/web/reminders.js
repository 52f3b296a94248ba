// The open reminders of the thread on the page: a folded list below its head.

import { ApiError, call } from "/api.js";
import { el } from "/words.js";

const WHEN = new Intl.DateTimeFormat(undefined, {
  weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
});

const when = (reminder) => WHEN.format(new Date(reminder.at));

/** Draws the reminders of a thread into `box`, folded as it was; `takeBack` is given one's id. */
function draw(box, reminders, takeBack) {
  box.hidden = reminders.length === 0;
  if (box.hidden) {
    box.open = false;
    return;
  }
  const count = reminders.length === 1 ? "1 reminder" : `${reminders.length} reminders`;
  const rows = reminders.map((reminder) => el("li", "", {},
    el("time", "", { datetime: reminder.at }, when(reminder)),
    el("span", "", { dir: "auto" }, reminder.text.trim().split("\n")[0].slice(0, 300)),
    el("button", "link", { type: "button", onclick: (e) => takeBack(e.currentTarget, reminder.id) }, "Take back")));
  box.replaceChildren(
    el("summary", "", {}, count, el("span", "hint", {}, ` · next ${when(reminders[0])}`)),
    el("ul", "", {}, ...rows));
}

let asked = 0;

/** Fetches the reminders of a thread and draws them, unless another thread was opened meanwhile. */
export async function showReminders(box, path, complain) {
  const turn = ++asked;
  try {
    const { reminders } = await call("GET", `${path}/reminders`);
    if (turn !== asked) return;
    draw(box, reminders, async (button, id) => {
      button.disabled = true;
      try {
        await call("DELETE", `${path}/reminders/${encodeURIComponent(id)}`);
      } catch (error) {
        // One that was posted or taken back meanwhile is gone from the list as well.
        if (!(error instanceof ApiError) || error.status !== 409) complain(error);
      }
      await showReminders(box, path, complain);
    });
  } catch (error) {
    if (turn === asked) draw(box, [], null);
    if (error.status !== 404) complain(error);
  }
}

/** Hides what is shown: another thread is being opened. */
export function hideReminders(box) {
  asked += 1;
  draw(box, [], null);
}
