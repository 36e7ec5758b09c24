// A form that creates or changes one thing: what was typed stays until it is saved, what is wrong is said at its field, and
// nothing is created twice because an answer is lost.
import type { Failure, Outcome } from '../../api/client';
import { mayBeDone } from './doubt';
import { forgetDraft, keepDraft, keptDraft } from './drafts';

type Complaints<Form> = Partial<Record<keyof Form, string>>;

interface Subject<Form, Saved> {
  /** Of the draft: what was typed is kept under it. */
  name: string;
  blank: Form;
  /** What is wrong with it before the server is asked. */
  check(form: Form): Complaints<Form>;
  /** What the server complains of, at our fields; `isAll` is false if that leaves something unsaid. */
  explain(fields: Record<string, string>, form: Form): { complaints: Complaints<Form>; isAll: boolean };
  send(form: Form): Promise<Outcome<Saved>>;
  /** Whether it changes what is there: that may be done twice. */
  changes: boolean;
  /** The page of what is just like it among the newest. */
  findTwin(form: Form): Promise<string | undefined>;
}

export class Editor<Form extends object, Saved> {
  form: Form;
  isLoaded = $state(false);
  /** What was typed in an earlier visit is in the form. */
  isPickedUp: boolean;
  isBusy = $state(false);
  failure = $state.raw<Failure>();
  /** Complaints that still hold for the form as it is now. */
  readonly complaints = $derived.by(() => this.#standing());
  /** Whether what the server refused is said at the fields; otherwise its own words have to do. */
  isAllSaid = $state(true);
  /** Nobody knows whether it was created. */
  doubt = $state.raw<{ twin: string | undefined }>();
  readonly isChanged = $derived.by(() => JSON.stringify(this.form) !== JSON.stringify(this.#before));

  /** The complaints of the last try; `of` is the form that the server judged, if they are the server's. */
  #said = $state.raw<{ complaints: Complaints<Form>; of?: Form }>();
  readonly #subject: Subject<Form, Saved>;
  /** What the form held at first. */
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

  /** What the server has is known; what was typed, in an earlier visit or while it was saved, goes before it. */
  begin(start: Form): void {
    const isTyped = this.isPickedUp || (this.isLoaded && this.isChanged);
    this.#before = start;
    if (!isTyped) this.form = start;
    this.isLoaded = true;
  }

  /** What was typed in an earlier visit is not wanted any more. */
  startAfresh(): void {
    this.isPickedUp = false;
    this.form = this.#before;
  }

  /** What was typed has become something that is there. */
  forget(): void {
    forgetDraft(this.#subject.name);
  }

  /** What was saved, if it was. */
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
      // What is typed after that is no second one.
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

  /** Every change is checked again. A complaint that only the server can make ends when its field is changed. */
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
