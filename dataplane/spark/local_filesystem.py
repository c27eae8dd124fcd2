"""Hadoop's file system of local files, without a process for each file.

Without Hadoop's native library, which PySpark does not bring, that file system starts `chmod` for
each file and each folder that it makes: seven processes for each file of a partitioned write. 500
files of 1,000 rows took 10.5 s with them and 3.5 s without (two cores, OpenJDK 17). So the one
method that does it is ours; Janino, the compiler of Spark's own generated code, compiles it.
"""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

_NAME = "HeadgateLocalFiles"
_JAVA = f"""
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {_NAME} extends LocalFileSystem {{
    public {_NAME}() {{
        super(new Raw());
    }}

    public static class Raw extends RawLocalFileSystem {{
        public void setPermission(Path path, FsPermission allowed) throws IOException {{
            String text = allowed.getUserAction().SYMBOL + allowed.getGroupAction().SYMBOL
                + allowed.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        }}
    }}
}}
"""


def install(spark: SparkSession) -> None:
    """Let everything in this JVM use it: it writes no `.crc` files, and ignores stale ones of
    others. Hadoop keeps one object for each file system and gives it to all callers."""
    jvm = spark._jvm
    assert jvm is not None
    file_system, where = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI("file:///")
    file_system.get(where, spark.sparkContext._jsc.hadoopConfiguration()).close()  # and forget it
    files = file_system.get(where, _configuration(spark))
    files.setWriteChecksum(False)
    files.setVerifyChecksum(False)


def _configuration(spark: SparkSession) -> JavaObject:
    """One that knows our class by name."""
    jvm = spark._jvm
    assert jvm is not None
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_JAVA)
    configuration = jvm.org.apache.hadoop.conf.Configuration(
        spark.sparkContext._jsc.hadoopConfiguration()
    )
    configuration.setClassLoader(compiler.getClassLoader())
    configuration.set("fs.file.impl", _NAME)
    return configuration
