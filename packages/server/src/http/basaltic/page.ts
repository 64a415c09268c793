/** The small pages behind a subscription's links: no script, no resource from anywhere, and nothing of the address goes on. */

/** A page to show: an answer in a sentence or two, and a button that sends the same address by POST. */
export interface Page {
  title: string;
  text: string;
  button?: string;
}

/** The headers of a page. */
export const pageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  "referrer-policy": "no-referrer",
  "x-robots-tag": "noindex",
} as const;

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);

/** The page as HTML. Texts may hold anything. */
export function pageHtml({ title, text, button }: Page): string {
  const form = button === undefined ? "" : `<form method="post"><button type="submit">${escaped(button)}</button></form>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 20vh auto 0; padding: 0 1rem; }
h1 { font-size: 1.25rem; }
button { font: inherit; padding: 0.5rem 1rem; }
</style>
</head>
<body>
<h1>${escaped(title)}</h1>
<p>${escaped(text)}</p>
${form}
</body>
</html>
`;
}
