// What is typed into a form and not saved stays in this tab: somebody may go and create the item first, or reload. It holds
// no secret, and is forgotten when it is saved, or when somebody signs out.
const PREFIX = 'penstock.draft.';
/** For browsers that let us store nothing. */
const kept = new Map<string, string>();

function storage(): Storage | undefined {
  try {
    return sessionStorage;
  } catch {
    return undefined;
  }
}

export function keptDraft<T>(form: string): T | undefined {
  try {
    const text = storage()?.getItem(PREFIX + form) ?? kept.get(form);
    return text ? (JSON.parse(text) as T) : undefined;
  } catch {
    return undefined;
  }
}

export function keepDraft(form: string, typed: unknown): void {
  const text = JSON.stringify(typed);
  kept.set(form, text);
  try {
    storage()?.setItem(PREFIX + form, text);
  } catch {
    // It is full: a reload will lose it, and nothing else.
  }
}

export function forgetDraft(form: string): void {
  kept.delete(form);
  try {
    storage()?.removeItem(PREFIX + form);
  } catch {
    // There was nothing to forget.
  }
}

export function forgetAllDrafts(): void {
  const stored = storage();
  const names = Object.keys(stored ?? {}).filter((name) => name.startsWith(PREFIX));
  for (const form of [...kept.keys(), ...names.map((name) => name.slice(PREFIX.length))]) forgetDraft(form);
}
