// Finds the server: by variables, else the dev server of this directory.
import { existsSync, readFileSync } from "node:fs";

const file = ".millrace/dev.json";
const dev = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
const url = process.env.MILLRACE_URL ?? dev.url;
const key = process.env.MILLRACE_API_KEY ?? dev.apiKey;
const organization = process.env.MILLRACE_ORGANIZATION ?? dev.organization;
const project = process.env.MILLRACE_PROJECT ?? dev.project;

/** One call below the project. Throws an error with the code of the API's own. */
export async function call(method, path, body, headers = {}) {
  const response = await fetch(`${url}/v1/organizations/${organization}/projects/${project}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  const answer = text === "" ? undefined : JSON.parse(text);
  if (!response.ok) throw Object.assign(new Error(answer.error.message), { code: answer.error.code });
  return answer;
}
