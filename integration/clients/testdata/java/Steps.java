import java.util.concurrent.Callable;

/** What the programs share: they end with an error at the first step that is not as it should be. */
final class Steps {
    private Steps() {}

    static void expect(String what, Object got, Object want) {
        if (!want.equals(got)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    static void done(String step) {
        System.out.println("done: " + step);
    }

    /** Calls until the result is not null. */
    static <T> T until(String what, Callable<T> call) throws Exception {
        for (long end = System.nanoTime() + 30_000_000_000L; System.nanoTime() < end; Thread.sleep(20)) {
            T result = call.call();
            if (result != null) {
                return result;
            }
        }
        throw new AssertionError("no " + what + " in time");
    }
}
