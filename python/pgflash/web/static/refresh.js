// SPDX-License-Identifier: PostgreSQL
// Parts of a page that are fetched again: every five seconds, each element with data-refresh is
// replaced by the current one of the page that the attribute names, or of this page.  Focus, scroll
// positions and open details are kept.  An element in which a control has the focus, or text is
// selected, is left alone meanwhile, and says so.
//
// A page without a stream has an element #stale, which says since when it was not updated.

const EVERY_MS = 5000;
const PATIENCE_MS = 15000;
const CONTROLS = "input, select, button, textarea";
const SCROLLED = "[tabindex]";
// What tells an element from others of its kind.
const NAMES = ["id", "href", "aria-labelledby", "aria-label"];

let round = null;
let updatedAt = new Date();

/** Begin a round, unless one is running; return its end. */
export async function refresh() {
    if (document.hidden) return;
    round ??= take().finally(() => { round = null; });
    await round;
}

async function take() {
    const begunAt = new Date();
    const addresses = new Set([...document.querySelectorAll("[data-refresh]")].map(addressOf));
    const problems = (await Promise.all([...addresses].map(takeFrom))).filter(one => one !== null);
    if (!problems.length) updatedAt = begunAt;
    say(problems[0]);
    document.dispatchEvent(new Event("refreshed"));
}

/** Say since when the page was not updated, and why; clear that without a PROBLEM. */
function say(problem) {
    const stale = document.querySelector("#stale");
    const since = `${updatedAt.toLocaleTimeString("en-GB")} by this browser's clock`;
    const words = problem ? `Not updated since ${since}: ${problem}` : "";
    // Otherwise screen readers would read it again.
    if (stale && stale.textContent !== words) stale.textContent = words;
}

function addressOf(one) {
    return new URL(one.dataset.refresh, location.href).href;
}

/** Replace what a page has; return null, or why it could not be fetched. */
async function takeFrom(address) {
    let text;
    try {
        const signal = AbortSignal.timeout(PATIENCE_MS);
        const answer = await fetch(address, {headers: {accept: "text/html"}, signal});
        if (answer.redirected) return "you are signed out; reload the page to sign in.";
        if (!answer.ok) return `pgflash serve reports an error (${answer.status}); trying again.`;
        text = await answer.text();
    } catch {
        return "pgflash serve does not answer; trying again.";
    }
    const made = new DOMParser().parseFromString(text, "text/html");
    for (const old of document.querySelectorAll("[data-refresh]")) {
        const part = addressOf(old) === address ? made.getElementById(old.id) : null;
        if (part && !old.isEqualNode(part)) replace(old, part);
    }
    return null;
}

function replace(old, part) {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const held = focused?.matches(CONTROLS) || isSelectedIn(old);
    old.classList.toggle("held", held);
    if (held) return;
    const focusVisible = focused?.matches(":focus-visible");
    const target = focused ? counterpart(focused, old, part) : null;
    const places = [...old.querySelectorAll(SCROLLED)]
        .map(one => [counterpart(one, old, part), one.scrollLeft, one.scrollTop]);
    for (const one of old.querySelectorAll("details[open]")) {
        counterpart(one, old, part)?.setAttribute("open", "");
    }
    old.replaceWith(part);
    for (const [one, left, top] of places) one?.scrollTo(left, top);
    target?.focus({preventScroll: true, focusVisible});
}

/** Return the element of PART that is what ONE is in OLD: of the same kind, section and name. */
function counterpart(one, old, part) {
    const section = of => of.parentElement.closest("[id]")?.id;
    const key = of => [section(of), ...NAMES.map(name => of.getAttribute(name))].join("\n");
    const alike = within =>
        [...within.querySelectorAll(one.localName)].filter(of => key(of) === key(one));
    return alike(part)[alike(old).indexOf(one)] ?? null;
}

function isSelectedIn(element) {
    const selection = getSelection();
    const ends = [selection.anchorNode, selection.focusNode];
    return !selection.isCollapsed && ends.some(one => element.contains(one));
}

setInterval(refresh, EVERY_MS);
