/**
 * Who may do what, decided from text alone (A5, A6): the one place where statements are read. Denied unless a statement allows.
 * `*` in a pattern stands for any run of characters, `/` and `.` included; everything else stands for itself.
 */
/** What is read of a caller and of a key to be made: see `Caller`. */
interface Rights {
  within: string | null;
  statements: readonly Grant[];
}
interface Grant {
  allow: readonly string[];
  on: readonly string[];
}

/** What `authorize` decides: `hidden` is answered as "not found", `denied` as a 403 naming the permission. */
export type Verdict = "allowed" | "denied" | "hidden";

/** The positions in `pattern` that are alive after reading `text`; a position at its end means a match. */
function read(pattern: string, text: string): Set<number> {
  let alive = new Set([0]);
  const skipStars = (set: Set<number>): Set<number> => {
    for (const at of set) if (pattern[at] === "*") set.add(at + 1);
    return set;
  };
  skipStars(alive);
  for (const character of text) {
    const next = new Set<number>();
    for (const at of alive) {
      if (pattern[at] === "*") next.add(at);
      else if (pattern.startsWith(character, at)) next.add(at + character.length);
    }
    if (next.size === 0) return next;
    alive = skipStars(next);
  }
  return alive;
}

/** Whether `pattern` matches the whole `text`. */
export function matches(pattern: string, text: string): boolean {
  if (pattern === "*" || pattern === text) return true;
  const star = pattern.indexOf("*");
  if (star < 0) return false;
  if (star === pattern.length - 1) return text.startsWith(pattern.slice(0, star));
  return read(pattern, text).has(pattern.length);
}

/** What a permission pattern is called here: keys made after Basaltic's pages name sending its way (T9). */
const meant = (permission: string): string => (permission === "queue:SendMessage" ? "queues.messages.send" : permission);

/** Whether anything lies inside a resource: in an organization, a project and an app. */
function holds(resource: string): boolean {
  const parts = resource.split("/");
  return parts.length <= 2 || (parts.length === 4 && parts[2] === "apps");
}

/** Whether `pattern` matches `resource` or may match something inside it. */
function touches(pattern: string, resource: string): boolean {
  return matches(pattern, resource) || (holds(resource) && read(pattern, `${resource}/`).size > 0);
}

const inside = (resource: string, container: string): boolean => resource === container || resource.startsWith(`${container}/`);

/**
 * Decides on one resource (`acme`, `acme/shop`, `acme/shop/queues/orders`). A key sees a resource when a statement names it or
 * anything inside it; what it sees but may not do is `denied`. `permission` `null` asks only whether the key sees it.
 */
export function authorize(caller: Rights, permission: string | null, resource: string): Verdict {
  const { within, statements } = caller;
  const reachable = within === null || inside(resource, within);
  if (permission !== null && reachable) {
    for (const { allow, on } of statements) {
      if (allow.some((pattern) => matches(meant(pattern), permission)) && on.some((pattern) => matches(pattern, resource)))
        return "allowed";
    }
  }
  const seen = (reachable || inside(within, resource)) && statements.some(({ on }) => on.some((pattern) => touches(pattern, resource)));
  if (!seen) return "hidden";
  return permission === null ? "allowed" : "denied";
}

/** Whether everything that `inner` matches is matched by `outer`: a `*` of `inner` counts as a character that only a `*` matches. */
const covers = (outer: string, inner: string): boolean => matches(outer, inner.replaceAll("*", "\u0000"));

/**
 * The first permission pattern of `given` that `caller` itself does not hold everywhere `given` would hold it, or `null`: nobody can
 * hand out more than they have. `within` is the project of the new key, so that `*` means that project.
 */
export function exceeds(caller: Rights, given: readonly Grant[], within: string): string | null {
  for (const { allow, on } of given) {
    const targets = on.flatMap((pattern) => (pattern === "*" ? [within, `${within}/*`] : [pattern]));
    for (const permission of allow) {
      for (const target of targets) {
        const held = caller.statements.some(
          (own) => own.allow.some((outer) => covers(meant(outer), meant(permission))) && own.on.some((outer) => covers(outer, target)),
        );
        if (!held) return permission;
      }
    }
  }
  return null;
}
