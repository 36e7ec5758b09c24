// What is typed into a form and not saved stays while the console is open: somebody may go and create the item first.
const kept = new Map<string, unknown>();

export function keptDraft<T>(form: string): T | undefined {
  return kept.get(form) as T | undefined;
}

export function keepDraft(form: string, typed: unknown): void {
  kept.set(form, typed);
}

export function forgetDraft(form: string): void {
  kept.delete(form);
}

export function hasDrafts(): boolean {
  return kept.size > 0;
}
