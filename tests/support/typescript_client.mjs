// A client of the official TypeScript SDK: node typescript_client.mjs SDK URL MODE NAME CALLS
//
// CALLS is JSON: [[tool, arguments], ...]. One line of JSON for each: {"text", "isError", "progress"} or {"failed"}; before them the tools.
// It answers each question of the server with yes, or with what the variable ANSWER says.
const [sdk, url, mode, name, calls] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(sdk);
const client = new Client(
  { name, version: "1" },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: mode === "legacy" ? "legacy" : { pin: mode } },
  },
);
const say = (value) => console.log(JSON.stringify(value));
let asked = 0;
client.setRequestHandler("elicitation/create", async ({ params }) => {
  asked += 1;
  const [field] = Object.keys(params.requestedSchema.properties ?? {});
  const kind = params.requestedSchema.properties?.[field]?.type;
  if (process.env.ANSWER) return { action: process.env.ANSWER };
  return { action: "accept", content: field ? { [field]: kind === "boolean" ? true : "blue" } : {} };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
say({ tools: (await client.listTools()).tools.map((tool) => tool.name), version: client.getServerVersion()?.name });
for (const [tool, given] of JSON.parse(calls)) {
  const progress = [];
  try {
    const result = await client.callTool(
      { name: tool, arguments: given },
      { onprogress: (one) => progress.push(one.message), timeout: 20000 },
    );
    say({ text: result.content[0]?.text, isError: result.isError ?? false, progress, asked });
  } catch (error) {
    say({ failed: error.message });
  }
}
await client.close().catch(() => {});
