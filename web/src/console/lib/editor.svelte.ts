// A form that creates or changes one thing. Typed text stays until it is saved, errors are shown at their
// fields, and a lost answer never leads to a second copy.
import type { Failure, Outcome } from '../../api/client';
import { mayBeDone } from './doubt';
import { forgetDraft, keepDraft, keptDraft } from './drafts';

type Complaints<Form> = Partial<Record<keyof Form, string>>;

interface Subject<Form, Saved> {
  /** The name of the draft that keeps the typed text. */
  name: string;
  blank: Form;
  /** The errors that are found without asking the server. */
  check(form: Form): Complaints<Form>;
  /** The server's complaints, at our fields; `isAll` is false if some of them belong to no field. */
  explain(fields: Record<string, string>, form: Form): { complaints: Complaints<Form>; isAll: boolean };
  send(form: Form): Promise<Outcome<Saved>>;
  /** Whether it changes an existing thing: that can be repeated safely. */
  changes: boolean;
  /** The page of an identical one among the newest. */
  findTwin(form: Form): Promise<string | undefined>;
}

export class Editor<Form extends object, Saved> {
  form: Form;
  isLoaded = $state(false);
  /** The form contains text from an earlier visit. */
  isPickedUp: boolean;
  isBusy = $state(false);
  failure = $state.raw<Failure>();
  /** Complaints that still apply to the current form. */
  readonly complaints = $derived.by(() => this.#standing());
  /** Whether all of the server's complaints are shown at fields; otherwise its own words are needed. */
  isAllSaid = $state(true);
  /** It is unknown whether it was created. */
  doubt = $state.raw<{ twin: string | undefined }>();
  readonly isChanged = $derived.by(() => JSON.stringify(this.form) !== JSON.stringify(this.#before));

  /** The complaints of the last try; `of` is the form that the server judged, if they are the server's. */
  #said = $state.raw<{ complaints: Complaints<Form>; of?: Form }>();
  readonly #subject: Subject<Form, Saved>;
  /** The form's first contents. */
  #before: Form;

  /** For use in a component. */
  constructor(subject: Subject<Form, Saved>) {
    const kept = keptDraft<Form>(subject.name);
    this.#subject = subject;
    this.#before = $state.raw(subject.blank);
    this.form = $state(kept ?? subject.blank);
    this.isPickedUp = $state(kept !== undefined);
    $effect(() => {
      if (!this.isLoaded) return;
      if (this.isChanged) keepDraft(subject.name, $state.snapshot(this.form));
      else this.forget();
    });
  }

  /** The server's data has come; text typed in an earlier visit or during saving takes precedence. */
  begin(start: Form): void {
    const isTyped = this.isPickedUp || (this.isLoaded && this.isChanged);
    this.#before = start;
    if (!isTyped) this.form = start;
    this.isLoaded = true;
  }

  /** Discards the text from an earlier visit. */
  startAfresh(): void {
    this.isPickedUp = false;
    this.form = this.#before;
  }

  /** The typed text has been saved, or exists already. */
  forget(): void {
    forgetDraft(this.#subject.name);
  }

  /** Returns what was saved, if it was. */
  async save(): Promise<Saved | undefined> {
    if (this.isBusy) return undefined;
    const { check, send, explain, changes, findTwin } = this.#subject;
    const sent = $state.snapshot(this.form) as Form;
    this.failure = this.doubt = undefined;
    this.#said = { complaints: check(sent) };
    if (Object.keys(this.complaints).length > 0) return undefined;
    this.isBusy = true;
    const answer = await send(sent);
    if (!answer.ok && !changes && mayBeDone(answer.failure)) this.doubt = { twin: await findTwin(sent) };
    this.isBusy = false;
    if (answer.ok) {
      this.#before = sent;
      // Text typed during saving does not start a second one.
      if (!changes) this.form = sent;
      this.isPickedUp = false;
      return answer.data;
    }
    const { complaints, isAll } = explain(answer.failure.fields, sent);
    this.failure = answer.failure;
    this.#said = { complaints, of: sent };
    this.isAllSaid = isAll && Object.keys(complaints).length > 0;
    return undefined;
  }

  /**
   * Every change is checked again. A complaint that only the server can make ends when its field is changed.
   */
  #standing(): Complaints<Form> {
    if (!this.#said) return {};
    const { complaints, of } = this.#said;
    const anew = this.#subject.check(this.form);
    const standing: Complaints<Form> = {};
    for (const field of Object.keys(complaints) as (keyof Form)[]) {
      const says = of && this.form[field] === of[field] ? complaints[field] : anew[field];
      if (says) standing[field] = says;
    }
    return standing;
  }
}
