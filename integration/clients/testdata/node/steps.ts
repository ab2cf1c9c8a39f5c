import { setTimeout } from "node:timers/promises";

// take runs the steps one after the other and prints the name of each; the first that
// fails ends the program.
export async function take(steps: Record<string, () => Promise<void>>) {
  for (const [name, step] of Object.entries(steps)) {
    try {
      await step();
    } catch (error) {
      console.error(`failed: ${name}`, error);
      process.exit(1);
    }
    console.log(`done: ${name}`);
  }
}

// until waits for a condition, for half a minute at the longest.
export async function until(condition: () => Promise<boolean>) {
  for (const end = Date.now() + 30_000; !(await condition()); await setTimeout(50)) {
    if (Date.now() > end) throw new Error("waited in vain");
  }
}
