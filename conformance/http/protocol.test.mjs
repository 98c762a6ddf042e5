import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.CONFORMANCE_TEST_URL,
  longPollTimeoutMs: Number(process.env.LONG_POLL_MS ?? 500),
  subscriptions: process.env.SUBSCRIPTIONS === "1",
})
