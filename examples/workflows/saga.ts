// A saga: steps that are undone in reverse when a later one can't be done. Undoing is steps too, so it survives crashes like the rest,
// and it also happens when the run is cancelled.
import { NonRetryableError, workflow } from "@millrace/sdk/workflows";

export interface Trip {
  flight: string;
  hotel: string;
  card: string;
}

export const trip = workflow<Trip, { confirmation: string }>("trip", async ({ input, step }) => {
  const undo: (() => Promise<unknown>)[] = [];
  try {
    const flight = await step.run("book flight", () => ({ reference: `F-${input.flight}` }));
    undo.push(() => step.run("cancel flight", () => console.log(`cancelled ${flight.reference}`)));

    const hotel = await step.run("book hotel", () => ({ reference: `H-${input.hotel}` }));
    undo.push(() => step.run("cancel hotel", () => console.log(`cancelled ${hotel.reference}`)));

    // Time to change one's mind: a cancellation ends the sleep with a CancelledError.
    await step.sleep("cooling off", "1h");

    await step.run("charge", () => {
      if (input.card === "expired") throw new NonRetryableError("the card has expired");
    });
    return { confirmation: `${flight.reference} and ${hotel.reference}` };
  } catch (error) {
    for (const undoOne of undo.reverse()) await undoOne();
    throw error;
  }
});
