// SPDX-License-Identifier: PostgreSQL
// Parts of a page that are fetched again: every five seconds, each element with data-refresh is
// replaced by the current one of the page that the attribute names, or of this page.  An element that
// has the focus is left alone.

const EVERY_MS = 5000;

export async function refresh() {
    if (document.hidden) return;
    const parts = [...document.querySelectorAll("[data-refresh]")];
    await Promise.all([...new Set(parts.map(one => one.dataset.refresh || location.href))].map(take));
    document.dispatchEvent(new Event("refreshed"));
}

async function take(address) {
    try {
        const answer = await fetch(address, {headers: {accept: "text/html"}});
        if (!answer.ok || answer.redirected) return;
        const made = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const old of document.querySelectorAll("[data-refresh]")) {
            const part = (old.dataset.refresh || location.href) === address ? made.getElementById(old.id) : null;
            if (part && !old.contains(document.activeElement)) old.replaceWith(part);
        }
    } catch {
        // live.js reports that nothing answers; this tries again later.
    }
}

setInterval(refresh, EVERY_MS);
