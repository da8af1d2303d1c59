// A visit with @openpanel/web in a headless Chromium: a page of another origin than the server's,
// with the tracker out of the package. Prints the statuses of what the tracker sent, a line each.
import { createRequire } from "node:module";
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { join, normalize } from "node:path";

const { MODULES, URL: api, CLIENT, CHROMIUM } = process.env;
const { chromium } = createRequire(`${MODULES}/`)("playwright-core");
const modules = join(MODULES, "node_modules");

const page = `<!doctype html><title>Shop</title>
<script type="importmap">{"imports": {
  "@openpanel/web": "/@openpanel/web/dist/index.js",
  "@openpanel/sdk": "/@openpanel/sdk/dist/index.js",
  "rrweb": "/rrweb/dist/rrweb.js"}}</script>
<script type="module">
  import { OpenPanel } from "@openpanel/web";
  window.op = new OpenPanel({
    clientId: "${CLIENT}", apiUrl: "${api}", trackScreenViews: true, trackOutgoingLinks: true,
    trackAttributes: true, sessionReplay: { enabled: true, flushIntervalMs: 500 },
  });
</script>
<a id="out" href="http://docs.example/" target="_blank">Docs</a>
<button id="buy" data-track="buy" data-plan="pro">Buy</button>`;

const site = createServer((request, response) => {
  const path = new URL(request.url, "http://site").pathname;
  const file = normalize(join(modules, path));
  const isModule = path.endsWith(".js") && file.startsWith(modules) && existsSync(file);
  response.setHeader("content-type", isModule ? "text/javascript" : "text/html");
  return isModule ? createReadStream(file).pipe(response) : response.end(page);
});
await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
const origin = `http://localhost:${site.address().port}`;

const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"],
});
const userAgent =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36";
const context = await browser.newContext({ userAgent });
await context.route("http://docs.example/**", (route) => route.fulfill({ body: "docs" }));
const visit = await context.newPage();

// What the tracker sends is known by its type and, for an event, its name.
const answered = [];
const waiting = [];
visit.on("response", async (response) => {
  const request = response.request();
  if (!request.url().startsWith(api) || request.method() !== "POST") return;
  const { type, payload } = request.postDataJSON();
  const what = payload.name ?? type;
  answered.push(what);
  console.log(JSON.stringify({ what, status: response.status() }));
  waiting.splice(0).forEach((look) => look());
});
const sent = async (what, times = 1) => {
  while (answered.filter((one) => one === what).length < times) {
    await new Promise((look) => waiting.push(look));
  }
};

await visit.goto(`${origin}/?utm_source=news`);
await sent("screen_view");
await visit.evaluate(() => history.pushState({}, "", "/pricing"));
await sent("screen_view", 2);
await visit.evaluate(() => window.op.identify({ profileId: "web-1", firstName: "Mary" }));
await visit.click("#buy");
await sent("buy");
await visit.click("#out");
await sent("link_out");
await visit.evaluate(() => window.op.revenue(1999, { plan: "pro" }));
await sent("revenue");
await sent("replay");
await browser.close();
site.close();
