// What a server does with @openpanel/sdk; its answers, one line of JSON each.
import { createRequire } from "node:module";

const resolve = createRequire(`${process.env.MODULES}/`).resolve;
const { OpenPanel } = await import(resolve("@openpanel/sdk"));
const op = new OpenPanel({
  clientId: process.env.CLIENT,
  clientSecret: process.env.SECRET,
  apiUrl: process.env.URL,
});
const say = (name, answer) => console.log(JSON.stringify({ name, answer: answer ?? null }));
say("track", await op.track("js_signup", { profileId: "js-1", plan: "pro", nested: { a: [1, 2] } }));
say("identify", await op.identify({ profileId: "js-1", firstName: "Ada", properties: { tier: "gold" } }));
say("increment", await op.increment({ profileId: "js-1", property: "visits", value: 2 }));
say("decrement", await op.decrement({ profileId: "js-1", property: "credits", value: 1 }));
