// Items and sales: listing, writing, checking and steering them.
const n = (value: number) => value.toLocaleString('en');
const counted = (value: number, one: string, many: string) => `${n(value)} ${value === 1 ? one : many}`;
const units = (value: number) => counted(value, 'unit', 'units');
/** Undefined if their number is unknown: then the sentence has no figure. */
const onWaitlist = (people: number | undefined) =>
  people === undefined
    ? 'Everyone on the waitlist is'
    : counted(people, 'person on the waitlist is', 'people on the waitlist are');
const span = (minutes: number) => {
  if (minutes < 120) return counted(minutes, 'minute', 'minutes');
  if (minutes < 48 * 60) return counted(Math.round(minutes / 60), 'hour', 'hours');
  return counted(Math.round(minutes / 1440), 'day', 'days');
};
const time = (seconds: number) =>
  seconds < 120 ? counted(seconds, 'second', 'seconds') : span(Math.round(seconds / 60));

export default {
  items: {
    heading: 'Items',
    lead: 'What you sell. A sale offers some units of an item at a price.',
    create: 'New item',
    editing: (title: string) => `Edit ${title}`,
    empty: 'There are no items yet.',
    title: 'Title',
    description: 'Description',
    descriptionHint: 'Shown on the sale page. Line breaks stay.',
    regularPrice: 'Regular price',
    currency: 'Currency',
    picture: 'Picture',
    saved: 'Saved. Sales of the item show it at once.',
    created: 'The item is created. Now draft a sale of it.',
    draftSale: 'Draft a sale of it',
    noPicture: 'No picture',
  },
  picture: {
    choose: 'Choose a picture',
    other: 'Choose another',
    drop: 'or drop one here',
    rules: 'PNG, JPEG, WebP, AVIF or GIF, at most 1 MiB and 4096 × 4096 pixels; 4:3 looks best.',
    address: 'Or its address',
    addressHint: 'Begins with https://, or with / on this server.',
    remove: 'Remove it',
    preview: 'How buyers see it',
    uploading: (percent: number) => `Uploading, ${percent} % …`,
    uploaded: (width: number, height: number, size: string) => `${width} × ${height} pixels, ${size}.`,
    onceSaved: 'It belongs to the item once you save.',
    unreachable: 'There is no picture at this address, or it can’t be shown.',
    faults: {
      kind: 'This is not a PNG, JPEG, WebP, AVIF or GIF. Save the picture as one of these and choose it again.',
      empty: 'The file is empty. Choose another.',
      too_large: 'The picture has more than 1 MiB. Make it smaller or save it as WebP, and choose it again.',
      too_many_pixels:
        'The picture has more than 4096 pixels on a side. Make it smaller and choose it again.',
      unreadable: 'The picture can’t be read; it may be damaged. Choose another.',
    },
  },
  sales: {
    heading: 'Sales',
    create: 'New sale',
    empty: 'There are no sales yet.',
    emptyIn: 'No sale is in this state.',
    item: 'Item',
    state: 'State',
    price: 'Price',
    stock: 'Stock',
    window: 'Window',
    filter: 'Show',
    newHeading: 'New sale',
    editHeading: 'Edit the draft',
    editLead: 'A draft can be changed until it is published.',
    onlyDrafts: 'This sale is published: its terms are fixed.',
    chooseItem: 'Choose an item …',
    noItems: 'There is no item yet. Create one first; what you typed here stays.',
    whatIsSold: 'What is sold',
    when: 'When',
    whoGetsIn: 'Who gets in',
    salePrice: 'Price in the sale',
    regularly: (price: string) => `Regularly ${price}`,
    discount: (percent: number, price: string) => `${percent} % below the regular price of ${price}`,
    units: 'Units',
    limit: 'Limit per buyer',
    limitHint: 'The most units that one buyer may have in this sale.',
    opens: 'Opening',
    opensHint: 'Empty: it opens when you publish it.',
    closes: 'Closing',
    closesHint: 'Empty: it stays open until you close it.',
    inZone: (zone: string) => `In your time zone: ${zone}`,
    hold: 'Time to pay',
    holdHint: (seconds: number) =>
      `Units of an order are held for ${time(seconds)}; unpaid ones go back on sale.`,
    holdSeconds: 'Time to pay (seconds)',
    gate: 'Gate',
    challenge: 'Challenge',
    challenges: {
      none: 'None',
      pow: 'Proof of work: the buyer’s device computes for a moment',
      captcha: 'Captcha: the buyer reads characters from a picture',
    },
    challengeHint: 'Makes thousands of bots costly.',
    waitingRoom: 'Waiting room',
    waitingRoomHint:
      'Buyers queue for their turn. Those who come before the opening get their places by a draw.',
    saveDraft: 'Save the draft',
    saved: 'The draft is saved.',
    complaints: {
      item_id: 'Choose an item.',
      itemGone: 'This item is gone. Choose another.',
      title: 'Has to have 1 to 200 characters.',
      description: 'Has to have at most 10,000 characters.',
      picture: 'Has to begin with https:// or / and have no spaces; browsers show no picture from http://.',
      amount: (decimals: number) =>
        decimals === 0
          ? 'Write an amount without decimals, such as 1999.'
          : `Write an amount with at most ${decimals} decimals, such as 1999${'.000'.slice(0, decimals + 1)}.`,
      amountTooLarge: 'The amount is too large.',
      currency: 'A currency code that is in use, such as CNY. The field suggests them.',
      units: 'A whole number from 1 to 100,000,000.',
      tooManyUnits: 'A sale can have at most 100,000,000 units in all.',
      limit_per_buyer: 'A whole number from 1 to 1,000,000.',
      hold_seconds: 'A whole number of seconds from 1 to 2,592,000 (30 days).',
      time: 'Give a day and a time.',
      skippedTime: 'This time does not exist: clocks are put forward that night.',
      closes_at: 'Has to come after the opening.',
      challenge: 'Choose one of these.',
      fixAbove: 'Some fields are not right yet. See the note at each one.',
    },
    happensTwice: 'Clocks are put back that night, and this time happens twice; the first is meant.',
  },
  sale: {
    terms: 'Terms',
    priceLine: (price: string, regular: string) => `${price} instead of ${regular}`,
    notSet: 'Not set',
    opensWhenPublished: 'When it is published',
    openedWhenPublished: 'When it was published',
    closesByHand: 'When you close it',
    planned: (time: string) => `Planned for ${time}`,
    closedByHand: 'Closed by hand',
    closedEarly: (time: string) => `Closed early; planned for ${time}`,
    closedBy: (time: string) => `${time} at the latest`,
    each: (limit: number) => `${units(limit)} for each buyer`,
    holdFor: (seconds: number) => `${time(seconds)} to pay`,
    noGate: 'None: everyone who is signed in can order',
    gateParts: { pow: 'Proof of work', captcha: 'Captcha', room: 'Waiting room', pass: 'Pass' },
    counts: 'Stock',
    available: 'Available',
    held: 'Held',
    paid: 'Paid',
    total: 'In total',
    waiting: 'Waiting',
    passes: 'Passes in hand',
    steer: 'Steer it',
    live: 'Watch it live',
    orders: 'Its orders',
    inShop: 'See it in the shop',
    copySale: 'Draft another like it',
    checklist: 'Before you publish',
    checklistDone: 'Everything is in order.',
    checklistAdvice: (count: number) =>
      `Nothing is in the way. ${counted(count, 'point is', 'points are')} worth a look.`,
    checklistMissing: (count: number) =>
      `${counted(count, 'point has', 'points have')} to be fixed before it can be published.`,
    mend: 'Fix it',
    standing: { done: 'Done', advice: 'Advice', missing: 'To fix' },
    closedWords: 'The sale is closed: no more orders are accepted.',
    closedButHeld: 'The sale is closed: no more orders are accepted. Units that are held can still be paid.',
    actions: {
      publish: 'Publish',
      pause: 'Pause',
      resume: 'Resume',
      restock: 'Restock',
      close: 'Close the sale',
    },
    /** The confirming button of the dialog. */
    does: {
      publish: 'Publish',
      pause: 'Pause the sale',
      resume: 'Resume the sale',
      restock: 'Add the units',
      close: 'Close the sale',
    },
    /** The other button of that dialog. */
    keeps: {
      publish: 'Don’t publish yet',
      pause: 'Don’t pause',
      resume: 'Keep it paused',
      restock: 'Add no units',
      close: 'Keep the sale',
    },
    asks: {
      publish: (title: string) => `Publish ${title}?`,
      pause: (title: string) => `Pause ${title}?`,
      resume: (title: string) => `Resume ${title}?`,
      restock: (title: string) => `Restock ${title}?`,
      close: (title: string) => `Close ${title} for good?`,
    },
    done: {
      publish: 'Published.',
      pause: 'Paused: new orders are refused.',
      resume: 'Resumed.',
      restock: 'Restocked.',
      close: 'Closed.',
    },
    unitsToAdd: 'Units to add',
    inDoubt: {
      total: (total: number) =>
        `It may have been done: the total is ${n(total)} now. If you want still more, say how many.`,
      unknown: 'It may have been done. Look at the total before you add units again.',
    },
    consequences: {
      opens_at_once: (count: number) => `${counted(count, 'unit is', 'units are')} on sale at once.`,
      opens_later: (count: number, at: string) =>
        `${counted(count, 'unit goes', 'units go')} on sale on ${at}.`,
      terms_fixed: 'Price, window, limit and gate can no longer be changed; units can still be added.',
      nobody_orders_until_resumed: 'Nobody can order until you resume it.',
      no_more_orders: 'No more orders are accepted.',
      held_can_be_paid: (count: number) =>
        `${counted(count, 'unit that is held can', 'units that are held can')} still be paid.`,
      what_is_held_can_be_paid: 'Units that are held can still be paid.',
      nothing_is_held: 'No unit is held at the moment.',
      waiting_keep_their_places: (people: number) =>
        `${counted(people, 'person keeps the place', 'people keep their places')} in the waiting room.`,
      waiting_are_sent_away: (people: number) =>
        `${counted(people, 'person in the waiting room is', 'people in the waiting room are')} sent away.`,
      waitlist_is_sent_away: (people: number | undefined) => `${onWaitlist(people)} sent away.`,
      unsold_stay: (count: number) => `${counted(count, 'unit stays', 'units stay')} unsold.`,
      on_sale_again: (count: number) =>
        `${counted(count, 'unit is', 'units are')} on sale again at once, if the window is open.`,
      offered_then_on_sale: (count: number, people: number | undefined) =>
        `${counted(count, 'unit is', 'units are')} free. ${onWaitlist(people)} offered ${count === 1 ? 'it' : 'them'} ` +
        'first, in order; the rest is on sale again at once, if the window is open.',
      sold_out_still: 'No unit is left, so it will show as sold out.',
      more_units: (count: number, total: number) => `${units(count)} more, ${n(total)} in total.`,
      waitlist_first: 'People on the waitlist get them first, in order.',
      final: 'This can’t be undone.',
    },
    points: {
      picture: {
        has: 'The item has a picture.',
        none: 'The item has no picture; buyers see an empty field.',
      },
      description: { has: 'The item has a description.', none: 'The item has no description.' },
      price: {
        discount: (percent: number) => `The price is ${percent} % below the regular one.`,
        same: 'The price is the regular one: no discount is shown.',
        above: 'The price is above the regular one.',
        free: 'The price is zero.',
        other_currency: 'The price is in another currency than the regular one.',
      },
      opening: {
        ahead: (minutes: number) => `It opens in ${span(minutes)}.`,
        soon: (minutes: number) => `It opens in ${span(minutes)}: hardly anybody will know by then.`,
        at_once: 'No opening is set: it opens the moment you publish it.',
        past: 'The opening is over: it opens the moment you publish it.',
      },
      closing: {
        after: (minutes: number) => `It is open for ${span(minutes)}.`,
        by_hand: 'It stays open until you close it.',
        past: 'The closing is over already.',
        before_opening: 'The closing is before the opening.',
        short: (minutes: number) =>
          `It is open for ${span(minutes)} only, less than the time to pay: units that come back unpaid can’t be sold again.`,
      },
      limit: {
        fits: (limit: number) => `One buyer may have ${units(limit)}.`,
        above_units: (limit: number, total: number) =>
          `The limit of ${n(limit)} is above the ${units(total)} that there are.`,
        few_buyers: (buyers: number) => `${counted(buyers, 'buyer', 'buyers')} could take everything.`,
      },
      hold: {
        fits: (seconds: number) => `Buyers have ${time(seconds)} to pay.`,
        short: (seconds: number) => `Buyers have only ${time(seconds)} to pay; many won’t make it.`,
        long: (seconds: number) => `Buyers have ${time(seconds)} to pay; unpaid units come back late.`,
      },
      gate: {
        both: 'A challenge and a waiting room keep bots and the crowd in order.',
        challenge_only: 'A challenge keeps bots away.',
        room_only: 'The waiting room has no challenge: bots can queue by the thousand.',
        open: 'There is no gate: everyone who is signed in can order.',
        open_to_a_crowd: 'For such a discount many will come: think of a waiting room and a challenge.',
      },
    },
  },
};
