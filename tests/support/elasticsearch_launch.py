"""How one Elasticsearch node is laid out on disk and started inside a bare Java runtime.

The published jars bring no start script and no launcher that works without the rest of the
distribution, and a Java runtime brings no compiler. So the JVM runs Py4J's gateway, and the node
is built through it: the same calls a launcher of ours in Java would make.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

VERSION = "9.5.3"

_TRANSPORT = "transport-netty4"
_TRANSPORT_JARS = ("netty-", f"{_TRANSPORT}-", "elasticsearch-ssl-config-")
_JVM_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "--enable-native-access=ALL-UNNAMED",
)
_DESCRIPTOR = {
    "name": _TRANSPORT,
    "description": "HTTP and transport",
    "version": VERSION,
    "elasticsearch.version": VERSION,
    "java.version": "21",
    "classname": "org.elasticsearch.transport.netty4.Netty4Plugin",
    "has.native.controller": "false",
}
_YES, _NO = True, False  # Java knows no argument names
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p [%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class Layout:
    """A node's directories: the distribution's shape, made of links into the cache of jars."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "config"
        self.modules = directory / "modules"
        self.log_file = directory / "server.log"
        self.temporary = directory / "tmp"

    def make(self, jars: Path) -> None:
        """Make the directories; `jars` holds all jars in one folder."""
        module = self.modules / _TRANSPORT
        for path in (self.config, module, self.temporary):
            path.mkdir(parents=True, exist_ok=True)
        for jar in _of_transport(jars):
            link = module / jar.name
            link.unlink(missing_ok=True)
            link.symlink_to(jar)
        descriptor = "".join(f"{key}={value}\n" for key, value in _DESCRIPTOR.items())
        (module / "plugin-descriptor.properties").write_text(descriptor, encoding="ascii")
        (self.config / "log4j2.properties").write_text(_LOGGING, encoding="ascii")


def command(java: Path, jars: Path, layout: Layout, *, heap_mb: int) -> list[str]:
    """Return the command line of a JVM that waits for the order to start a node.

    Its first two lines of output are the port of its gateway and the word that opens it.
    """
    transport = _of_transport(jars)
    server = [jar for jar in sorted(jars.glob("*.jar")) if jar not in transport]
    return [
        str(java),
        f"-Xmx{heap_mb}m",
        *_JVM_FLAGS,
        f"-Djava.io.tmpdir={layout.temporary}",
        f"-Des.path.home={layout.directory}",
        f"-Des.path.conf={layout.config}",
        "-cp",
        ":".join(str(jar) for jar in [Path(find_jar_path()), *server]),
        "py4j.GatewayServer",
        "--enable-auth",
        "0",
    ]


def gateway_of(log: str) -> tuple[int, str] | None:
    """Return port and password of the gateway from what the JVM wrote so far; None: not yet."""
    # before it speaks Java says which of its options the environment gave
    lines = [line for line in log.split("\n")[:-1] if not line.startswith("Picked up ")]
    return (int(lines[0]), lines[1]) if len(lines) > 1 else None


def start_node(layout: Layout, gateway: tuple[int, str], settings: Mapping[str, str]) -> None:
    """Build a node in the waiting JVM and start it; returns when it listens.

    Raises:
        py4j.protocol.Py4JError: the node refused to start; the text is Java's own.
    """
    port, password = gateway
    parameters = GatewayParameters(port=port, auth_token=password)
    java = JavaGateway(gateway_parameters=parameters)
    try:
        _start(java, layout, settings)
    finally:
        java.close()


def _start(gateway: JavaGateway, layout: Layout, settings: Mapping[str, str]) -> None:
    jvm = gateway.jvm
    logging = jvm.org.elasticsearch.common.logging.LogConfigurator
    logging.registerErrorListener()  # before anything else touches the log
    logging.setNodeName(settings["node.name"])
    path = jvm.java.io.File(str(layout.config)).toPath()
    builder = jvm.org.elasticsearch.common.settings.Settings.builder()
    for key, value in settings.items():
        builder.put(key, value)
    environment = jvm.org.elasticsearch.env.Environment(builder.build(), path)
    logging.configure(environment, _YES)
    # initialising this class initialises its subclasses: two threads that meet their first errors
    # at the same time would wait for each other's for ever
    jvm.java.lang.Class.forName("org.elasticsearch.ElasticsearchException")
    loader = jvm.org.elasticsearch.plugins.PluginsLoader
    modules = jvm.java.io.File(str(layout.modules)).toPath()
    bundles = loader.loadModulesBundles(modules, _NO)
    nothing, no_names = jvm.java.util.HashSet(), jvm.java.util.HashMap()
    plugins = loader.createPluginsLoader(bundles, nothing, no_names, _NO)
    jvm.org.elasticsearch.node.Node(environment, plugins).start()


def _of_transport(jars: Path) -> Sequence[Path]:
    return [jar for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(_TRANSPORT_JARS)]
