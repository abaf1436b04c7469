import { element } from "./elements.js";

const TOKEN = "resus-token"; // of this tab only; asked for when the server demands one

/** What the visitor is told; `status` is 0 when no answer came. */
class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** One request to the service on this origin: GET, or POST when there is a body. */
export async function ask(path, { body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerError("The server did not answer: is “resus serve” still running?", 0);
  }
  const answer = await response.json().catch(() => null);
  signal?.throwIfAborted();
  if (response.ok && answer !== null) return answer;
  const reason = answer?.error ?? (response.ok ? "something that is not JSON" : response.statusText);
  throw new ServerError(`The server answered ${response.status}: ${reason}`, response.status);
}

/** Of several pieces of work started one after another only the last one counts; the others end without a word. */
export function latest(work) {
  let current = new AbortController();
  return async (...values) => {
    current.abort();
    current = new AbortController();
    const { signal } = current;
    try {
      await work(signal, ...values);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
}

/** Does the work; what goes wrong is said in `place`, with a way to try again. */
export async function attempt(place, work) {
  try {
    await work();
    place.replaceChildren();
  } catch (error) {
    if (!(error instanceof ServerError)) console.error(error);
    const again = () => attempt(place, work);
    const message = error instanceof ServerError ? error.message : `The page itself failed: ${error.message}`;
    place.replaceChildren(
      element("div", { className: "problem", role: "alert" },
        element("p", {}, message),
        error.status === 401 ? tokenForm(again) : element("button", { type: "button", onclick: again }, "Try again"),
      ),
    );
  }
}

function tokenForm(again) {
  const input = element("input", { type: "password", name: "token", autocomplete: "off", required: true });
  const send = (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, input.value);
    again();
  };
  return element("form", { onsubmit: send }, element("label", {}, "Token ", input), element("button", {}, "Use it"));
}
