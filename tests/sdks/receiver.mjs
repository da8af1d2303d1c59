// A receiver that verifies each delivery with two published libraries, and prints a line for it.
import { createRequire } from "node:module";
import { createServer } from "node:http";

const load = createRequire(`${process.env.MODULES}/node_modules/`);
const libraries = [load("standardwebhooks").Webhook, load("svix").Webhook];
const [known, unknown] = [process.env.SECRET, process.env.OTHER];

const verifies = (Library, secret, body, headers) => {
  try {
    new Library(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
};

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts).toString();
    const told = libraries.map((Library) => [
      verifies(Library, known, body, request.headers),
      verifies(Library, unknown, body, request.headers),
      verifies(Library, known, `${body} `, request.headers),
    ]);
    console.log(JSON.stringify({ id: request.headers["webhook-id"], told }));
    response.writeHead(204).end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify(server.address().port)));
