// What a server does with @segment/analytics-node.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MODULES}/`);
const { Analytics } = require("@segment/analytics-node");
const analytics = new Analytics({
  writeKey: `${process.env.CLIENT}:${process.env.SECRET}`,
  host: process.env.URL,
});
analytics.on("error", (error) => {
  console.error(error);
  process.exitCode = 1;
});
analytics.identify({ userId: "node-1", traits: { name: "Grace Hopper", email: "grace@shop.example" } });
analytics.track({ userId: "node-1", anonymousId: "node-device", event: "node_signup", properties: { seats: 3 } });
analytics.group({ userId: "node-1", groupId: "org_2", traits: { name: "Navy", type: "company" } });
await analytics.closeAndFlush();
