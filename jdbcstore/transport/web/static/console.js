// The shell: which page the address means, who is logged in, and what is made anew while one looks.

import { Refused, act, session } from "./api.js";
import { close, form } from "./dialogs.js";
import { address, make, time } from "./dom.js";
import * as pages from "./pages.js";

const PAGES = {
  "/": ["Overview", pages.overview, 5],
  "/destinations": ["Destinations", pages.destinations, 5],
  "/dead-letters": ["Dead letters", pages.deadLetters, 0],
  "/connections": ["Connections", pages.connections, 10],
  "/subscriptions": ["Subscriptions", pages.subscriptions, 10],
  "/store": ["Store", pages.store, 5],
  "/scheduled": ["Scheduled", pages.scheduled, 0],
  "/transactions": ["In doubt", pages.transactions, 0],
  "/operations": ["Operations", pages.operations, 2],
  "/log": ["Log", pages.log, 0],
  "/send": ["Send", pages.send, 0],
  "/destination": [null, pages.destination, 0],
  "/message": [null, pages.message, 0],
};

const main = document.getElementById("main"), state = document.getElementById("state");
const nav = document.getElementById("nav"), who = document.getElementById("who"), notice = document.getElementById("notice");
let shown = 0, timer = 0;
// What the broker said last of itself and of who asks.
let known = null;

const app = {
  mayAct: false,
  go(path, query = {}) {
    history.pushState(null, "", address(path, query));
    show({ moves: true });
  },
  show: () => show({}),
  // Do something, say so, and show the page anew.
  async done(call, text) {
    try {
      await call();
      tell(text, "done");
    } catch (error) {
      tell(error.message);
    }
    await show({ keepsNotice: true });
  },
};

function tell(text, kind) {
  notice.hidden = !text;
  notice.textContent = text ?? "";
  notice.dataset.kind = kind ?? "";
}

async function show({ moves = false, isAgain = false, keepsNotice = false }) {
  const number = ++shown;
  clearTimeout(timer);
  const path = location.pathname, query = Object.fromEntries(new URLSearchParams(location.search));
  const [title, page, again] = PAGES[path] ?? PAGES["/"];
  try {
    const asking = session();
    // A page is asked for at the same time if it will be shown: a busy broker answers all of it at once.
    const early = known && isServed(known, path) ? page(query, app) : null;
    early?.catch(() => {}); // awaited below, if it is still wanted
    const told = await asking;
    if (number !== shown) return;
    const isSame = known?.user === told.user && known?.may_act === told.may_act;
    known = told;
    heading(told, path);
    app.mayAct = told.may_act;
    if (!keepsNotice && !isAgain) tell(null);
    let content;
    if (!told.user) content = [make("h1", {}, "Log in"), make("p", {}, "This broker has users: log in to see it.")];
    else if (!isServed(told, path)) content = standby(told.master);
    else content = await (early && isSame ? early : page(query, app));
    if (number !== shown) return;
    const focused = document.activeElement?.closest?.("main") ? document.activeElement : null;
    if (isAgain && (focused?.matches("input, select, textarea") || window.getSelection()?.type === "Range")) {
      timer = setTimeout(() => show({ isAgain: true }), 1000 * again);
      return;
    }
    const place = window.scrollY;
    main.replaceChildren(...content.flat().filter(Boolean));
    document.title = `${title ?? query.name ?? query.id ?? "jdbcstore"} · ${told.master.name}`;
    if (moves) {
      window.scrollTo(0, 0);
      main.focus({ preventScroll: true });
    } else window.scrollTo(0, place);
    if (notice.dataset.kind === "lost") tell(null);
  } catch (error) {
    if (number !== shown) return;
    if (error instanceof Refused && error.status === 0) {
      tell(error.message, "lost");
      timer = setTimeout(() => show({ isAgain: true }), 3000);
      return;
    }
    main.replaceChildren(make("h1", {}, title ?? "jdbcstore"), make("p", { class: "bad" }, error.message));
    if (!(error instanceof Refused)) console.error(error);
  }
  if (again) timer = setTimeout(refresh, 1000 * again);
}

// Whether the broker has this page for who asks. A standby has little to show.
function isServed(told, path) {
  return told.user && (told.master.state === "master" || path === "/store" || path === "/log");
}

// Make the page anew, when somebody can see it.
function refresh() {
  if (document.hidden) document.addEventListener("visibilitychange", refresh, { once: true });
  else show({ isAgain: true });
}

function standby(master) {
  return [make("h1", {}, `This broker is ${master.state}`), make("p", {}, `Since ${time(Date.parse(master.since))}: ${master.reason}.`),
    make("p", { class: "quiet" }, "Queues and clients are with the master: open the console of that broker. Here there are the store and the log.")];
}

function heading(told, path) {
  state.textContent = `${told.master.name} · ${told.master.state}${told.master.term ? ` · term ${told.master.term}` : ""}`;
  nav.replaceChildren(...Object.entries(PAGES).filter(([, [title]]) => title).map(([at, [title]]) =>
    make("a", { href: at, "aria-current": at === path ? "page" : null }, title)));
  const current = nav.querySelector("[aria-current]"); // of a phone's row that is longer than the screen
  if (current) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
  const log = told.may_act
    ? make("button", { type: "button", onclick: () => app.done(() => act("logout"), "Logged out.") }, "Log out")
    : make("button", { type: "button", class: "main", id: "login", onclick: () => login(told.has_users) }, "Log in");
  who.replaceChildren(make("span", {}, told.user ?? ""), log, make("button", { type: "button", onclick: theme, "aria-label": "dark or light" }, "◐"));
}

function login(hasUsers) {
  const secret = { type: "password", autocomplete: "current-password" };
  const fields = hasUsers
    ? [["login", "Login", { required: true, autocomplete: "username" }], ["passcode", "Passcode", secret]]
    : [["token", "Token, which the broker has printed or has in a file", { ...secret, required: true }]];
  form("Log in", fields, "Log in", async (given) => {
    await act("login", given);
    close();
    await show({});
  });
}

function theme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

const chosen = localStorage.getItem("theme");
if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.button || event.metaKey || event.ctrlKey || event.shiftKey || anchor.origin !== location.origin) return;
  if (anchor.hash || !(anchor.pathname in PAGES)) return;
  event.preventDefault();
  app.go(anchor.pathname, Object.fromEntries(anchor.search ? new URLSearchParams(anchor.search) : []));
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
  const filter = document.querySelector("[data-filter]");
  if (filter) {
    event.preventDefault();
    filter.focus();
    filter.select();
  }
});
window.addEventListener("popstate", () => show({ moves: true }));
show({});
