// ioredis and node-redis. The argument says which. README.md says what is read and printed.

const fs = require("fs");
const scenario = JSON.parse(fs.readFileSync(process.env.SCENARIO));
const nodes = process.env.NODES.split(",").map((node) => {
  const [host, port] = node.split(":");
  return { host, port: Number(port) };
});
const say = (...words) => fs.writeSync(1, words.join(" ") + "\n");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const flat = (reply) => {
  if (Array.isArray(reply)) return reply.map(flat).join(" ");
  if (reply instanceof Error) throw reply;
  if (reply && typeof reply === "object") return Object.entries(reply).flat().map(flat).join(" ");
  return reply === null || reply === undefined ? "nil" : String(reply);
};

async function ioredis() {
  const { Cluster } = require("ioredis");
  const client = new Cluster(nodes);
  client.on("error", () => {});
  return {
    version: require("ioredis/package.json").version,
    call: ([name, ...rest]) => client.call(name, rest),
    pipeline: async (commands) => {
      const replies = await client.pipeline(commands.map(([name, ...rest]) => ["call", name, ...rest])).exec();
      return replies.map(([error, reply]) => error || reply);
    },
    transaction: async (key) => {
      const replies = await client.multi().set(key, 1).incr(key).exec();
      return replies.map(([error, reply]) => error || reply);
    },
    scan: async (pattern) => {
      const found = new Set();
      for (const node of client.nodes("master")) {
        for await (const names of node.scanStream({ match: pattern, count: 20 })) names.forEach((name) => found.add(name));
      }
      return found.size;
    },
  };
}

async function nodeRedis() {
  const { createCluster } = require("redis");
  const client = createCluster({ rootNodes: nodes.map((socket) => ({ socket })) });
  client.on("error", () => {});
  client.on("node-error", () => {});
  await client.connect();
  const keyOf = (command) => command[1];
  return {
    version: require("redis/package.json").version,
    call: (command) => client.sendCommand(keyOf(command), false, command),
    pipeline: (commands) => Promise.all(commands.map((command) => client.sendCommand(keyOf(command), false, command))),
    transaction: (key) => client.multi().set(key, "1").incr(key).exec(),
    scan: async (pattern) => {
      const found = new Set();
      for (const master of client.masters) {
        const node = await client.nodeClient(master);
        for await (const names of node.scanIterator({ MATCH: pattern, COUNT: 20 })) names.forEach((name) => found.add(name));
      }
      return found.size;
    },
  };
}

async function checks(client) {
  for (const [number, command] of scenario.commands.entries()) {
    if (command[0] === "SLEEP") await sleep(Number(command[1]));
    else say("reply", number, flat(await client.call(command)));
  }
  say("piped", flat(await client.pipeline(scenario.pipeline)));
  say("transaction", flat(await client.transaction(scenario.transaction)));
  say("note", "WATCH wants a connection of its own, which it does not offer in a cluster");
  say("scanned", await client.scan(scenario.scan));
}

async function main() {
  const client = await (process.argv[2] === "ioredis" ? ioredis() : nodeRedis());
  say("version", client.version);
  for (const command of scenario.prepare) await client.call(command);
  if (process.env.CHECKS) await checks(client);
  say("ready");
  const end = Date.now() + Number(process.env.SECONDS) * 1000;
  for (const [number, command] of scenario.operations.entries()) {
    if (Date.now() > end) break;
    const began = Date.now();
    let outcome = "done", reply;
    try {
      reply = flat(await client.call(command));
    } catch (error) {
      // A reply of the server has a code in capitals as its first word.
      outcome = /^[A-Z]+ /.test(error.message) || error.name === "ReplyError" ? "refused" : "unknown";
      reply = `${error.name}: ${error.message}`.replace(/\s+/g, " ");
    }
    say("op", number, outcome, Date.now() - began, reply);
    await sleep(scenario.pause_ms);
  }
  say("end");
  process.exit(0);
}

main().catch((error) => { say("failed", String(error).replace(/\s+/g, " ")); process.exit(1); });
