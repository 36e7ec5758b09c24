// The part of a sale's page for signed-in buyers: one file, so that no step of a purchase waits for the
// network.
export { default as OrderStage } from '../orders/OrderStage.svelte';
export { browserWorld } from '../purchase/browser';
export { Purchase } from '../purchase/purchase.svelte';
export { default as Check } from './Check.svelte';
export { Mine } from './mine.svelte';
export { default as WaitingRoom } from './WaitingRoom.svelte';
export { default as Waitlist } from './Waitlist.svelte';
