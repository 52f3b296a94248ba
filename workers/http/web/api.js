// The API as the page uses it: the envelope opened, errors as exceptions, and the event stream kept.

export class ApiError extends Error {
  constructor(message, code, status, data) {
    super(message);
    this.code = code;
    this.status = status;
    /** What the refusal is about: the settled message of `already_settled`. */
    this.data = data;
  }
}

/** Asks the API and returns the envelope's data. */
export async function call(method, path, body) {
  const options = { method, headers: { accept: "application/json" }, credentials: "same-origin" };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new ApiError("Leo cannot be reached.", "unreachable", 0);
  }
  let envelope;
  try {
    envelope = await response.json();
  } catch {
    throw new ApiError("The answer cannot be read.", "unreadable", response.status);
  }
  if (!envelope.ok) throw new ApiError(envelope.error, envelope.code, response.status, envelope.data);
  return envelope.data;
}

/**
 * Uploads a file for a thread. `progress` is told the share that is gone; the result has a promise of the
 * attachment and a way to stop. Only XMLHttpRequest tells how far a body is.
 */
export function upload(file, name, agent, progress) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    const query = new URLSearchParams({ filename: name, agent });
    request.open("POST", `/api/v1/chat/uploads?${query}`);
    request.setRequestHeader("accept", "application/json");
    request.setRequestHeader("idempotency-key", freshId());
    request.setRequestHeader("content-type", file.type || "application/octet-stream");
    request.upload.onprogress = (e) => e.lengthComputable && progress(e.loaded / e.total);
    request.onerror = () => reject(new ApiError("Leo cannot be reached.", "unreachable", 0));
    request.onabort = () => reject(new ApiError("Stopped.", "stopped", 0));
    request.onload = () => {
      let envelope;
      try {
        envelope = JSON.parse(request.responseText);
      } catch {
        return reject(new ApiError("The answer cannot be read.", "unreadable", request.status));
      }
      if (!envelope.ok) return reject(new ApiError(envelope.error, envelope.code, request.status));
      return resolve(envelope.data);
    };
    request.send(file);
  });
  return { done, stop: () => request.abort() };
}

/** An id of our own for a message; `randomUUID` exists only where the page is a secure context. */
export function freshId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

const EVENTS = [
  "chat.message", "chat.updated", "chat.read",
  "agent_spawned", "agent_state_changed", "agent_activity", "agent_stopped",
];

/**
 * Follows the event stream after `since` for ever. The browser reconnects by itself when the network
 * fails; when the server refuses, we do, and `refused` learns why.
 */
export function follow(since, { hello, event, lost, refused }) {
  let last = since;
  let pause = 500;
  const open = () => {
    const source = new EventSource(`/api/v1/events?since=${encodeURIComponent(last)}`);
    source.addEventListener("hello", (frame) => {
      pause = 500;
      last = frame.lastEventId;
      hello(JSON.parse(frame.data));
    });
    for (const kind of EVENTS) {
      source.addEventListener(kind, (frame) => {
        last = frame.lastEventId;
        event(kind, JSON.parse(frame.data));
      });
    }
    source.onerror = async () => {
      lost();
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(open, pause);
      pause = Math.min(pause * 2, 10000);
      // An EventSource does not say why it was refused.
      await call("GET", "/api/v1/agents").catch(refused);
    };
  };
  open();
}
