// Unsaved text of a form stays in this tab: the user may create the item first, or reload. It contains no
// secret, and is forgotten when it is saved or when the user signs out.
const PREFIX = 'penstock.draft.';
/** For browsers that refuse to store anything. */
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
    // The storage is full: a reload will lose the text, nothing else.
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
