// SPDX-License-Identifier: PostgreSQL
// Parts of a page that the server makes anew: every five seconds the page is fetched, and what
// bears data-refresh is replaced by what it has become.  What has the focus is left alone.

const EVERY_MS = 5000;

export async function refresh() {
    if (document.hidden) return;
    try {
        const answer = await fetch(location.href, {headers: {accept: "text/html"}});
        if (!answer.ok || answer.redirected) return;
        const made = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const old of document.querySelectorAll("[data-refresh]")) {
            const part = made.getElementById(old.id);
            if (part && !old.contains(document.activeElement)) old.replaceWith(part);
        }
        document.dispatchEvent(new Event("refreshed"));
    } catch {
        // live.js says that nothing answers; here it is tried again.
    }
}

setInterval(refresh, EVERY_MS);
