// Tickets of a help desk. (in a comment)
import { EventEmitter as Emitter } from "node:events";
import type { Clock } from "./clock";

export const MAX_OPEN = 20;
let opened = 0;

export type Id = string | number;

/** How urgent a ticket is. */
export enum Urgency {
  Low = 1, // in a comment
  High = Low << 2,
  "very high" = "in a string",
}

declare const enum Flag {
  None,
}

export interface Store<T> {
  readonly size: number;
  /** Find one. */
  find(id: Id): T | undefined;
}

export namespace Desk {
  export const name = "desk";
  export function open(): void {}
}

/** One ticket. */
export abstract class Ticket implements Store<string> {
  static count = 0;
  #notes: string[] = [];
  constructor(
    readonly id: Id, // what it is called
    private urgency = Urgency.Low,
  ) {}
  get size(): number { return this.#notes.length; }
  find = (id: Id): string | undefined => this.#notes[Number(id)];
  abstract close(
    reason: string, // why
    /* since
       when */ at?: Date,
  ): Promise<void>;
  note(text: string): this {
    const cut = (value: string) => value.trim();
    this.#notes.push(cut(text));
    return this;
  }
}

export function settle(ticket: Ticket): string;
export function settle(ticket: Ticket, clock?: Clock): string {
  function inner() { return clock; }
  return `${ticket.id} in a string`;
}

export const double = async (value: number): Promise<number> => value * 2;
export default class extends Emitter {}
