"""The options of the JVMs that tests start, and of Spark in them."""

QUICK_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
    " -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Tests run each plan a few times, not long enough for the thorough compiler.

With the quick compiler alone, the JVM would have room for 48 MB of compiled code. The plans of some
ten tests fill that: from then on it discards code and compiles it again, which took a quarter of
its time. `MetaspaceSize` saves the full collections that make room for Spark's classes. Threads of
a parallel collector would wait for each other on a busy machine. To verify the 30,000 classes that
a session loads would take two seconds of the processor.
"""

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings by which Spark interprets expressions, which for a few events takes much less time than
to compile them.
"""
