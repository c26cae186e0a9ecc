// What each address shows. A page gets its query and what it may do, and returns elements; `live` ones are made anew.

import { act, view } from "./api.js";
import { confirm, form, operate, close } from "./dialogs.js";
import { address, age, ageOf, bytes, link, make, number, pairs, table, tiles, time } from "./dom.js";
import { plot } from "./plot.js";

const DLQ = "queue://ActiveMQ.DLQ";

function to(name) {
  return link("/destination", { name }, name);
}

function button(text, onclick, kind) {
  return make("button", { type: "button", class: kind ?? null, onclick }, text);
}

function kindOf(row) {
  return [row.is_dead_letter_queue && "dead letters", row.is_paused && "paused", row.is_closed && "takes nothing",
    row.is_temporary && "temporary"].filter(Boolean).map((text) => make("span", { class: "badge" }, text));
}

// -- overview -----------------------------------------------------------------------------------------------------

// The samples of the last hour that the broker has told; it is asked for newer ones only.
let lately = [];
const SAMPLES_MAX = 720;

async function history() {
  const newest = lately.at(-1)?.at_ms;
  const more = await view("history", { after_ms: newest });
  if (newest === lately.at(-1)?.at_ms) lately = [...lately, ...more].slice(-SAMPLES_MAX);
  return lately;
}

export async function overview(_, app) {
  const [broker, samples, slow, worst] = await Promise.all([view("broker"), history().catch(() => []),
    view("slow-consumers", { count: 10 }).catch(() => ({ rows: [], total: 0 })),
    view("destinations", { kind: "queue", sort: "depth", descending: true, count: 10 })]);
  const now = Date.now();
  const problems = [
    broker.dead_letters && make("li", {}, link("/dead-letters", {}, `${number(broker.dead_letters)} dead letters`)),
    slow.total && make("li", {}, link("/subscriptions", { slow: "true" }, `${number(slow.total)} slow consumers`)),
    broker.is_draining && make("li", {}, "The broker is drained: it takes no messages. ",
      app.mayAct && button("Take messages again", () => app.done(() => act("drain", { on: false }), "Messages are taken again."))),
    ...worst.destinations.filter((row) => row.depth && !row.consumers && !row.is_dead_letter_queue).slice(0, 5)
      .map((row) => make("li", {}, to(row.name), ` has ${number(row.depth)} messages and no consumer`)),
    ...worst.destinations.filter((row) => row.is_paused || row.is_closed)
      .map((row) => make("li", {}, to(row.name), " is paused")),
    broker.loop_lag_ms > 200 && make("li", {}, `the event loop is ${number(broker.loop_lag_ms)} ms late`),
  ].filter(Boolean);
  return [make("h1", {}, `Broker ${broker.name}`),
    tiles([["Messages", number(broker.depth)], ["In flight", number(broker.in_flight)], ["In", `${number(broker.rate_in)}/s`],
      ["Out", `${number(broker.rate_out)}/s`], ["Oldest", ageOf(broker.oldest_ms)],
      ["Dead letters", number(broker.dead_letters), broker.dead_letters ? "bad" : null],
      ["Clients", number(broker.connections)], ["Queues", number(broker.queues)], ["Topics", number(broker.topics)],
      ["Up", age((now - broker.started_ms) / 1000)]]),
    make("h2", {}, "Problems"),
    problems.length ? make("ul", {}, problems) : make("p", { class: "good" }, "None that can be seen from here."),
    make("h2", {}, "The last hour"),
    make("div", { class: "plots" }, plot("Messages per second", samples, [["in", "rate_in"], ["out", "rate_out"]]),
      plot("Messages", samples, [["waiting", "depth"], ["in flight", "in_flight"]]),
      plot("Age of the oldest", samples, [["age", "oldest_age_s"]], age),
      plot("Commit", samples, [["half take up to", "commit_ms"], ["event loop late", "loop_lag_ms"]], (value) => `${number(value)} ms`)),
    make("h2", {}, "Fullest queues"), destinationTable(worst.destinations)];
}

function destinationTable(rows, sorting) {
  return table("Destinations", [
    ["Name", (row) => make("span", {}, to(row.name), kindOf(row)), { sort: "name" }],
    ["Depth", (row) => (row.kind === "queue" ? number(row.depth) : "–"), { number: true, sort: "depth" }],
    ["In flight", (row) => number(row.in_flight), { number: true, sort: "in_flight", optional: true }],
    ["Oldest", (row) => ageOf(row.oldest_ms), { number: true, sort: "oldest_ms" }],
    ["Consumers", (row) => number(row.consumers), { number: true, sort: "consumers" }],
    ["In/s", (row) => number(row.rate_in), { number: true, sort: "rate_in" }],
    ["Out/s", (row) => number(row.rate_out), { number: true, sort: "rate_out" }],
    ["Enqueued", (row) => number(row.enqueued), { number: true, sort: "enqueued", optional: true }],
    ["Dequeued", (row) => number(row.dequeued), { number: true, sort: "dequeued", optional: true }],
    ["Dead-lettered", (row) => number(row.dead_lettered), { number: true, sort: "dead_lettered", optional: true }],
  ], rows, "There are none.", sorting);
}

// -- destinations ---------------------------------------------------------------------------------------------------

export async function destinations(query, app) {
  const sort = query.sort ?? "depth", isDescending = (query.descending ?? "true") === "true";
  const offset = Number(query.offset ?? 0), count = 100;
  const page = await view("destinations", { kind: query.kind, text: query.text, sort, descending: isDescending, offset, count });
  const go = (more) => app.go("/destinations", { ...query, offset: undefined, ...more });
  const filter = make("form", { class: "bar", role: "search", onsubmit: (event) => {
    event.preventDefault();
    go(Object.fromEntries(new FormData(event.target)));
  } },
  make("label", {}, "Name has", make("input", { name: "text", type: "search", value: query.text ?? "", "data-filter": "" })),
  make("label", {}, "Kind", make("select", { name: "kind", onchange: (event) => go({ kind: event.target.value }) },
    [["", "queues and topics"], ["queue", "queues"], ["topic", "topics"]].map(([value, text]) =>
      make("option", { value, selected: (query.kind ?? "") === value }, text)))),
  make("button", { type: "submit" }, "Filter"),
  app.mayAct && button("New queue or topic …", () => form("New destination", [["destination", "Name", { value: "queue://", required: true }]],
    "Create", async (given) => { await act("create", given); close(); app.go("/destination", { name: given.destination }); })));
  const sorting = { by: sort, isDescending, sort: (by) => go({ sort: by, descending: by === sort ? !isDescending : by !== "name" }) };
  return [make("h1", {}, "Queues and topics"), filter, destinationTable(page.destinations, sorting),
    pager(offset, count, page.total, (next) => address("/destinations", { ...query, offset: next }))];
}

function pager(offset, count, total, at) {
  return make("p", { class: "bar" }, make("span", { class: "quiet" },
    total ? `${number(offset + 1)} to ${number(Math.min(offset + count, total))} of ${number(total)}` : "0"),
  offset > 0 && make("a", { href: at(Math.max(offset - count, 0)), rel: "prev", class: "button" }, "Previous"),
  offset + count < total && make("a", { href: at(offset + count), rel: "next", class: "button" }, "Next"));
}

// -- one destination --------------------------------------------------------------------------------------------------

export async function destination(query, app) {
  const name = query.name ?? "";
  const told = await view("destination", { destination: name });
  const row = told.destination, isQueue = row.kind === "queue";
  const selector = query.selector ?? "", cause = query.cause ?? "", origin = query.origin ?? "";
  const listed = { destination: name, selector, cause, origin };
  const page = await view("messages", { ...listed, after: query.after, count: 100 }).catch((error) => ({ error }));
  const chosen = new Set();
  const picked = () => (chosen.size ? { destination: name, message_ids: [...chosen] } : listed);
  const again = () => app.show();
  const boxes = (message) => make("input", { type: "checkbox", "aria-label": `choose ${message.messageId}`, onchange: (event) => {
    if (event.target.checked) chosen.add(message.messageId); else chosen.delete(message.messageId);
  } });
  const ask = (title, action) => form(`${title} messages`, [["target", "To queue", { value: "queue://", required: true }]], "Count …",
    async (given) => operate(title, action, { ...picked(), ...given }, again));
  const removes = () => {
    const given = picked();
    const isAll = !given.message_ids && !selector && !cause && !origin;
    return operate(isAll ? "Purge" : "Delete", isAll ? "purge" : "delete", given, again, true);
  };
  const side = (field, which, off, on) => button(row[field] ? on : off, () => app.done(() =>
    act(row[field] ? "resume" : "pause", { destination: name, side: which }), row[field] ? "Resumed." : "Paused."));
  const actions = app.mayAct && make("div", { class: "bar" },
    link("/send", { destination: name }, "Send …"),
    isQueue && side("is_paused", "consumers", "Pause consumers", "Resume consumers"),
    side("is_closed", "producers", "Pause producers", "Resume producers"),
    button("Delete destination …", () => confirm("Delete destination", `${name} with all its messages is removed for good.`, "Delete",
      () => act("delete-destination", { destination: name }), () => app.go("/destinations")), "danger"));
  const tools = app.mayAct && isQueue && make("div", { class: "bar" },
    row.is_dead_letter_queue && button("Retry …", () => operate("Retry", "retry", picked(), again), "main"),
    button("Move …", () => ask("Move", "move")), button("Copy …", () => ask("Copy", "copy")),
    button("Change …", () => change(picked(), again)), button("Delete …", removes, "danger"),
    make("span", { class: "quiet" }, "the chosen messages; without a choice, all that the filter matches"));
  const filter = make("form", { class: "bar", role: "search", onsubmit: (event) => {
    event.preventDefault();
    app.go("/destination", { name, ...Object.fromEntries(new FormData(event.target)) });
  } }, make("label", {}, "Selector", make("input", { name: "selector", size: 40, value: selector, placeholder: "colour = 'red' AND JMSPriority > 4",
    "data-filter": "" })), make("button", { type: "submit" }, "Filter"));
  return [make("h1", {}, name, kindOf(row)), actions,
    tiles(isQueue ? [["Depth", number(row.depth)], ["In flight", number(row.in_flight)], ["Oldest", ageOf(row.oldest_ms)],
      ["Consumers", number(row.consumers)], ["In", `${number(row.rate_in)}/s`], ["Out", `${number(row.rate_out)}/s`],
      ["Enqueued", number(row.enqueued)], ["Dequeued", number(row.dequeued)], ["Expired", number(row.expired)],
      ["Dead-lettered", number(row.dead_lettered)], ["In memory", bytes(row.memory_bytes)]]
      : [["Consumers", number(row.consumers)], ["Durable subscriptions", number(row.subscriptions)], ["In", `${number(row.rate_in)}/s`],
        ["Published", number(row.enqueued)], ["Dead-lettered", number(row.dead_lettered)]]),
    make("h2", {}, "Messages"), filter,
    origin && make("p", {}, `from ${origin}, ${cause || "for any cause"}`), tools,
    page.error ? make("p", { class: "bad" }, page.error.message) : messageTable(page.messages, name, app.mayAct && isQueue && boxes, selector),
    !page.error && make("p", { class: "bar" }, make("span", { class: "quiet" }, `${number(page.messages.length)} shown, ${number(page.looked)} looked at`),
      query.after && make("a", { class: "button", href: address("/destination", { ...query, after: undefined }) }, "First"),
      page.after && make("a", { class: "button", rel: "next", href: address("/destination", { ...query, after: page.after }) }, "Next")),
    !page.error && page.unreadable.length > 0 && make("p", { class: "bad" }, `${page.unreadable.length} messages cannot be read; they stay in the store`),
    make("h2", {}, "Subscriptions"), subscriptionTable(told.subscriptions)];
}

function messageTable(messages, destination, boxes, selector) {
  return table("Messages", [
    ...(boxes ? [["", boxes, { box: true }]] : []),
    ["Message", (row) => link("/message", { destination, number: row.number || undefined, id: row.messageId }, row.messageId)],
    ["Sent", (row) => row.sent, { optional: true, number: true }],
    ["Kind", (row) => row.kind, { optional: true }],
    ["Priority", (row) => row.priority, { number: true, optional: true }],
    ["Size", (row) => bytes(row.bytes), { number: true, optional: true }],
    ["Body", (row) => (row.body === null ? "" : String(row.body))],
  ], messages, selector ? "No message matches here." : "There is no message.");
}

// -- one message ------------------------------------------------------------------------------------------------------

export async function message(query, app) {
  const destination = query.destination ?? "";
  const told = await view("message", { destination, number: query.number, message_id: query.id });
  const shown = told.message;
  if (!shown) return [make("h1", {}, "Message"), make("p", {}, "It is not there any more: consumed, moved or expired.")];
  const given = { destination, message_ids: [shown.messageId] };
  const back = () => app.go("/destination", { name: destination });
  const cause = shown.properties.dlqDeliveryFailureCause;
  const raw = told.archived.message;
  const tools = app.mayAct && destination.startsWith("queue://") && make("div", { class: "bar" },
    shown.originalDestination && button("Retry …", () => operate("Retry", "retry", given, back), "main"),
    button("Move …", () => form("Move message", [["target", "To queue", { value: "queue://", required: true }]], "Count …",
      async (place) => operate("Move", "move", { ...given, ...place }, back))),
    button("Change …", () => change(given, back)),
    button("Delete …", () => operate("Delete", "delete", given, back, true), "danger"),
    link("/send", { destination: shown.originalDestination ?? destination, body: typeof shown.body === "string" ? shown.body : "",
      properties: JSON.stringify(told.archived.properties ?? {}) }, "Edit and send again …"));
  return [make("h1", {}, shown.messageId), make("p", {}, "in ", to(destination)), tools,
    cause && make("p", {}, make("span", { class: "bad" }, "Dead: "), String(cause)),
    make("h2", {}, "Body"), body(shown, raw),
    make("h2", {}, "Properties"), pairs(Object.entries(shown.properties).map(([key, value]) => [key, String(value)])),
    make("h2", {}, "Headers"), pairs([["Number", number(shown.id)], ["Kind", shown.kind], ["Size", bytes(shown.bytes)], ["Sent", shown.sent],
      ["Expires", shown.expires ?? "never"], ["Priority", shown.priority], ["Persistent", shown.persistent ? "yes" : "no"],
      ["Redelivered", shown.redelivered ? "yes" : "no"], ["Came from", shown.originalDestination && to(shown.originalDestination)],
      ["Correlation id", shown.correlationId], ["Reply to", shown.replyTo], ["Type", shown.type], ["Group", shown.group]])];
}

// Give messages another priority or time to live.
function change(given, after) {
  form("Change messages", [["priority", "Priority, 0 to 9; empty: as it is", { type: "number", min: 0, max: 9 }],
    ["expires_s", "Expires after, s; 0: never; empty: as it is", { type: "number", min: 0 }]], "Count …", async ({ priority, expires_s: seconds }) =>
    operate("Change", "change", { ...given, priority, expiration_ms: Number(seconds) ? Date.now() + 1000 * Number(seconds) : seconds }, after));
}

function body(shown, raw) {
  const text = shown.body === null ? "" : String(shown.body);
  const views = [["Text", () => text]];
  try {
    const value = JSON.parse(text);
    if (value !== null && typeof value === "object") views.unshift(["JSON", () => JSON.stringify(value, null, 2)]);
  } catch { /* it is no JSON */ }
  if (raw.content) views.push(["Hex", () => hex(raw.content)]);
  const area = make("pre", { tabindex: "0", id: "body" }, views[0][1]());
  const choose = (place) => {
    area.textContent = views[place][1]();
    [...bar.children].forEach((one, at) => one.setAttribute("aria-pressed", String(at === place)));
  };
  const bar = make("div", { class: "bar" }, views.map(([name], place) =>
    make("button", { type: "button", "aria-pressed": String(place === 0), "aria-controls": "body", onclick: () => choose(place) }, name)));
  return make("div", {}, bar, area);
}

function hex(base64) {
  const data = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 65536); at += 16) {
    const part = [...data.slice(at, at + 16)];
    const codes = part.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const text = part.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes}  ${text}`);
  }
  if (data.length > 65536) lines.push(`… ${data.length - 65536} bytes more`);
  return lines.join("\n");
}

// -- dead letters -----------------------------------------------------------------------------------------------------

export async function deadLetters(query, app) {
  const page = await view("destinations", { kind: "queue", sort: "depth", descending: true, count: 1000 });
  const queues = page.destinations.filter((row) => row.is_dead_letter_queue);
  const name = query.name ?? queues[0]?.name ?? DLQ;
  const groups = make("div", {}, make("p", { class: "quiet" }, app.mayAct ? "" : "Log in to group them by origin and cause."));
  const count = async () => {
    groups.replaceChildren(make("p", { class: "quiet", role: "status" }, "Counting by origin and cause …"));
    try {
      let counted = await act("retry", { destination: name, dry_run: true });
      while (counted.state === "running") {
        await new Promise((done) => setTimeout(done, 300));
        counted = await view("operation", { operation_id: counted.operation_id });
      }
      groups.replaceChildren(groupTable(counted, name, app));
    } catch (error) {
      groups.replaceChildren(make("p", { class: "quiet" }, error.message));
    }
  };
  if (app.mayAct && queues.length) count();
  return [make("h1", {}, "Dead letters"),
    table("Dead-letter queues", [["Queue", (row) => link("/dead-letters", { name: row.name }, row.name)],
      ["Messages", (row) => number(row.depth), { number: true }], ["Oldest", (row) => ageOf(row.oldest_ms), { number: true }],
      ["", (row) => link("/destination", { name: row.name }, "all messages")]], queues, "There are no dead letters."),
    queues.length > 0 && make("h2", {}, `${name}, by origin and cause`), queues.length > 0 && groups];
}

function groupTable(counted, name, app) {
  const again = () => app.show();
  const rows = counted.groups.map(([origin, cause, count]) => ({ origin, cause, count, given: { destination: name, origin, cause } }));
  return make("div", {}, make("p", {}, `${number(counted.matched)} messages, ${bytes(counted.bytes)} `,
    app.mayAct && counted.matched > 0 && button("Retry all …", () => operate("Retry", "retry", { destination: name }, again), "main")),
  table("Groups", [["Came from", (row) => (row.origin ? to(row.origin) : "nowhere else")], ["Cause", (row) => row.cause],
    ["Messages", (row) => number(row.count), { number: true }],
    ["", (row) => make("span", { class: "bar" }, link("/destination", { name, origin: row.origin, cause: row.cause }, "look"),
      app.mayAct && row.origin && button("Retry …", () => operate("Retry", "retry", row.given, again)),
      app.mayAct && button("Delete …", () => operate("Delete", "delete", row.given, again, true), "danger"))]],
  rows, "None."));
}

// -- clients ----------------------------------------------------------------------------------------------------------

export async function connections(query, app) {
  const offset = Number(query.offset ?? 0);
  const page = await view("connections", { text: query.text, offset, count: 100 });
  return [make("h1", {}, "Connections"), search("/connections", query, app, "Client, address or user"),
    table("Connections", [["Connection", (row) => row.connection_id, { optional: true }], ["Client id", (row) => row.client_id], ["From", (row) => row.peer],
      ["Protocol", (row) => row.protocol, { optional: true }], ["User", (row) => row.user], ["Subscriptions", (row) => number(row.subscriptions), { number: true }],
      ["Holds", (row) => number(row.unacknowledged), { number: true }], ["Sent", (row) => number(row.sent), { number: true }],
      ["", (row) => [row.is_waiting && "waits", row.is_not_reading && "does not read"].filter(Boolean).join(", ")],
      ...(app.mayAct ? [["", (row) => button("Disconnect …", () => confirm("Disconnect", `${row.peer} is disconnected; what it holds goes back.`,
        "Disconnect", () => act("disconnect", { connection_id: row.connection_id }), () => app.show()), "danger")]] : [])],
    page.rows, "Nobody is connected."), pager(offset, 100, page.total, (next) => address("/connections", { ...query, offset: next }))];
}

function search(path, query, app, title) {
  return make("form", { class: "bar", role: "search", onsubmit: (event) => {
    event.preventDefault();
    app.go(path, { ...query, offset: undefined, ...Object.fromEntries(new FormData(event.target)) });
  } }, make("label", {}, title, make("input", { name: "text", type: "search", value: query.text ?? "", "data-filter": "" })),
  make("button", { type: "submit" }, "Filter"));
}

export async function subscriptions(query, app) {
  const offset = Number(query.offset ?? 0);
  const page = await view(query.slow ? "slow-consumers" : "subscriptions", { text: query.text, offset, count: 100 });
  return [make("h1", {}, query.slow ? "Slow consumers" : "Subscriptions"), search("/subscriptions", query, app, "Name, destination or client"),
    make("p", {}, query.slow ? link("/subscriptions", {}, "all subscriptions") : link("/subscriptions", { slow: "true" }, "slow ones only")),
    subscriptionTable(page.rows, app), pager(offset, 100, page.total, (next) => address("/subscriptions", { ...query, offset: next }))];
}

function subscriptionTable(rows, app) {
  return table("Subscriptions", [["Kind", (row) => row.kind], ["Destination", (row) => to(row.destination)],
    ["Client", (row) => row.client_id ?? row.peer ?? ""], ["Name", (row) => row.name],
    ["Used by", (row) => row.peer ?? make("span", { class: "quiet" }, "nobody"), { optional: true }],
    ["Holds", (row) => number(row.unacknowledged), { number: true }], ["Prefetch", (row) => number(row.prefetch), { number: true, optional: true }],
    ["Lag", (row) => number(row.lag), { number: true }], ["", (row) => (row.is_slow ? make("span", { class: "badge bad" }, "slow") : "")],
    ["Selector", (row) => row.selector, { optional: true }],
    ...(app?.mayAct ? [["", (row) => (row.kind === "durable" && !row.connection_id ? button("Remove …", () => confirm("Remove subscription",
      `${row.name} of ${row.client_id} is removed with ${number(row.lag)} messages that wait for it.`, "Remove",
      () => act("remove-subscription", { client_id: row.client_id, name: row.name }), () => app.show()), "danger") : "")]] : [])],
  rows, "There are none.");
}

// -- store, times, transactions ---------------------------------------------------------------------------------------

export async function store(_, app) {
  const told = await view("store");
  const { store: kept, memory } = told;
  const part = (used, most) => `${bytes(used)} of ${bytes(most)}`;
  const buttons = app.mayAct && make("div", { class: "bar" },
    button("Drain …", () => confirm("Drain", "No client may send any more; consumers finish what there is.", "Drain", () => act("drain", { on: true }),
      () => app.go("/"))),
    button("Hand over …", () => confirm("Hand over", "Clients are let go and a standby becomes master. Without one, this broker is master again after some seconds.",
      "Hand over", () => act("hand-over"), () => app.show()), "danger"));
  return [make("h1", {}, "Store and failover"),
    tiles([["Kind", kept.kind], ["Size", bytes(kept.size_bytes)], ["Commits", number(kept.commits)], ["Writes in a commit", number(kept.batch)],
      ["Commit, half", kept.commit_ms[0] === null ? "–" : `≤ ${number(kept.commit_ms[0])} ms`],
      ["Commit, 95 %", kept.commit_ms[1] === null ? "–" : `≤ ${number(kept.commit_ms[1])} ms`], ["Waiting writes", number(kept.waiting)],
      ["Failures", number(kept.failures), kept.failures ? "bad" : null]]),
    pairs([["Location", kept.location], ["Lease left", kept.lease_left_s === null ? "no lease" : age(kept.lease_left_s)],
      ["Lock holder", kept.lock_holder], ["Term", kept.lock_term],
      ["Standbys that wait", kept.standbys === null ? "this store cannot tell" : number(kept.standbys)]]), buttons,
    make("h2", {}, "Memory"), pairs([["Messages", part(memory.messages, memory.messages_max)], ["Kept for clients", part(memory.kept, memory.kept_max)],
      ["On its way to the store", part(memory.uncommitted, memory.uncommitted_max)], ["Consumers held back", number(memory.parked_consumers)],
      ["Senders that wait", number(memory.waiting_senders)]]), ...(kept.kind === "kahadb" ? diagnosis(app) : []),
    make("h2", {}, "This broker's life"), table("States", [["Since", (row) => time(Date.parse(row.since))], ["State", (row) => row.state], ["Term", (row) => row.term],
      ["Why", (row) => row.reason]], told.terms, "")];
}

// What keeps the files of a KahaDB journal: asked for by hand, since it reads all of them.
let diagnosed = null, isDiagnosing = false;

function diagnosis(app) {
  const place = make("div", { "aria-live": "polite" });
  const show = (told) => place.replaceChildren(
    make("p", { class: "quiet" }, `${number(told.files)} files, ${bytes(told.bytes)}, of which ${bytes(told.live_bytes)} are live messages; ` +
      `the next cleanup removes ${number(told.removable)} files. Made at ${time(told.made_ms)}.`),
    make("img", { class: "picture", src: `data:image/svg+xml,${encodeURIComponent(told.svg)}`, alt: "A bar for each file, coloured by who keeps it; the table has the same" }),
    table("Who keeps files", [["Who", (row) => (row.holder.includes("://") ? to(row.holder) : row.holder)], ["Messages", (row) => number(row.messages), { number: true }],
      ["Size", (row) => bytes(row.bytes), { number: true }], ["In files", (row) => number(row.files), { number: true }],
      ["Oldest", (row) => (row.oldest_s === null ? "–" : age(row.oldest_s)), { number: true }],
      ["Frees", (row) => (row.frees_files ? `${number(row.frees_files)} files, ${bytes(row.frees_bytes)}` : "nothing"), { number: true }]], told.holders, "Nobody."));
  const wait = () => place.replaceChildren(make("p", { class: "quiet" }, "The journal is being read …"));
  const ask = button("What keeps the files?", async () => {
    if (isDiagnosing) return;
    isDiagnosing = true;
    wait();
    try {
      diagnosed = await view("diagnosis");
      isDiagnosing = false;
      app.show(); // this page may have been made anew meanwhile
    } catch (error) {
      isDiagnosing = false;
      place.replaceChildren(make("p", { class: "bad" }, error.message));
    }
  });
  if (isDiagnosing) wait();
  else if (diagnosed) show(diagnosed);
  return [make("h2", {}, "Files of the journal"), make("div", { class: "bar" }, ask), place];
}

export async function scheduled(query, app) {
  const page = await view("scheduled", { after_ms: query.after_ms, after_id: query.after_id, count: 100 });
  return [make("h1", {}, "Scheduled messages"),
    table("Scheduled", [["Due", (row) => (row.due_ms === null ? make("span", { class: "bad" }, "held") : time(row.due_ms))],
      ["Destination", (row) => (row.error ? make("span", { class: "bad" }, row.error) : to(row.destination))],
      ["Again", (row) => row.cron || (row.period_ms ? `each ${age(row.period_ms / 1000)}` : "")], ["Times", (row) => (row.repeat < 0 ? "for ever" : number(row.repeat + 1)), { number: true }],
      ["Job", (row) => row.job_id, { optional: true }],
      ...(app.mayAct ? [["", (row) => button("Remove …", () => confirm("Remove", `The message for ${row.destination} is not sent.`, "Remove",
        () => act("remove-scheduled", { job_id: row.job_id }), () => app.show()), "danger")]] : [])], page.rows, "There are none."),
    page.after && make("p", { class: "bar" },
      make("a", { class: "button", href: address("/scheduled", { after_ms: page.after[0], after_id: page.after[1] }) }, "Next"))];
}

export async function transactions(_, app) {
  const [prepared, loads] = await Promise.all([view("prepared"), view("loads")]);
  const decide = (row, verb, action, does) => button(`${verb} …`, () => confirm(`${verb} a transaction`,
    `${row.transaction_id}: ${does} Its transaction manager must not decide otherwise.`, verb,
    () => act(action, { xid: row.xid }), () => app.show()), "danger");
  return [make("h1", {}, "Transactions in doubt"),
    table("In doubt", [["Transaction", (row) => row.transaction_id], ["Adds", (row) => number(row.added), { number: true }],
      ["Removes", (row) => number(row.removed), { number: true }], ["Acknowledges", (row) => number(row.acknowledged), { number: true }],
      ["Destinations", (row) => row.destinations.join(", ")],
      ...(app.mayAct ? [["", (row) => make("span", { class: "bar" },
        decide(row, "Commit", "commit-prepared", "what it adds is delivered, what it removes or acknowledges is gone."),
        decide(row, "Roll back", "rollback-prepared", "what it adds is gone, what it removes or acknowledges is delivered again."))]] : [])],
    prepared, "There are none."),
    make("p", { class: "quiet" }, "They are decided by their transaction manager; by hand if it never will."),
    make("h2", {}, "Bulk loads"), table("Loads", [["Load", (row) => row.job], ["Messages", (row) => number(row.messages), { number: true }],
      ["Taken in", (row) => number(row.taken), { number: true }], ["Refused", (row) => number(row.refused), { number: true }]], loads, "None is waiting.")];
}

export async function operations(_, app) {
  const rows = await view("operations");
  return [make("h1", {}, "Operations"),
    table("Operations", [["Began", (row) => time(row.began_ms)], ["Who", (row) => row.who], ["What", (row) => row.action + (row.is_dry_run ? ", counting" : "")],
      ["Where", (row) => row.destination + (row.target ? ` to ${row.target}` : "")], ["Which", (row) => row.filter, { optional: true }],
      ["Done", (row) => number(row.is_dry_run ? row.matched : row.done), { number: true }], ["Skipped", (row) => number(row.skipped), { number: true, optional: true }],
      ["State", (row) => make("span", { class: row.state === "failed" ? "bad" : null, title: row.error }, row.state)],
      ...(app.mayAct ? [["", (row) => (row.state === "running" ? button("Stop", () => app.done(() => act("cancel", { operation_id: row.operation_id }), "It stops.")) : "")]] : [])],
    rows, "Nothing was done since the broker started.")];
}

export async function log() {
  const [lines, audit] = await Promise.all([view("log", { count: 300 }), view("audit", { count: 100 })]);
  return [make("h1", {}, "Log"),
    make("h2", {}, "What operators have done"), table("Audit", [["When", (row) => time(row.at_ms)], ["Who", (row) => row.who], ["What", (row) => row.action],
      ["To what", (row) => row.subject], ["Outcome", (row) => row.outcome]], audit, "Nothing yet."),
    make("h2", {}, "Last lines"), table("Log", [["When", (row) => time(row.at_ms)],
      ["Level", (row) => make("span", { class: ["error", "critical"].includes(row.level) ? "bad" : null }, row.level)], ["Line", (row) => row.text]],
    lines.toReversed(), "Nothing yet.")];
}

// -- send -------------------------------------------------------------------------------------------------------------

export async function send(query, app) {
  const field = (name, label, options = {}) => make("label", {}, label, make("input", { name, value: query[name] ?? options.value ?? "",
    required: options.required ?? false, type: options.type ?? "text", size: options.size ?? 20 }));
  const told = make("div", { role: "status" });
  const submit = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    given.persistent = given.persistent === "on";
    try {
      given.properties = given.properties ? JSON.parse(given.properties) : {};
      if (given.expires_s) given.expiration_ms = Date.now() + 1000 * Number(given.expires_s);
      delete given.expires_s;
      const sent = await act("send", given);
      told.replaceChildren(make("p", { class: "good" }, "Stored as ", link("/message", { destination: given.destination, id: sent.message_id }, sent.message_id)));
    } catch (error) {
      told.replaceChildren(make("p", { class: "bad" }, error.message));
    }
  };
  return [make("h1", {}, "Send a message"), !app.mayAct && make("p", { class: "quiet" }, "Log in to send."),
    make("form", { onsubmit: submit },
      make("div", { class: "bar" }, field("destination", "To", { value: "queue://", required: true, size: 40 }),
        field("priority", "Priority", { type: "number", value: "4", size: 3 }), field("expires_s", "Expires after, s", { type: "number", size: 6 }),
        field("type", "Type"), field("correlation_id", "Correlation id"), field("reply_to", "Reply to"),
        make("label", { class: "line" }, make("input", { type: "checkbox", name: "persistent", checked: true }), "persistent")),
      make("label", {}, "Properties, a JSON object"), make("textarea", { name: "properties", rows: 3, "aria-label": "Properties, a JSON object" }, query.properties ?? ""),
      make("p", {}), make("label", {}, "Body"), make("textarea", { name: "body", "aria-label": "Body", rows: 10 }, query.body ?? ""),
      make("p", { class: "bar" }, make("button", { type: "submit", class: "main", disabled: !app.mayAct }, "Send"))), told];
}
