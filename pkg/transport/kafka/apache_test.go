package kafka_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
)

// apache is Apache Kafka: one node that is broker and controller.
type apache struct {
	dir, jars, addr, asks, controller string
	process                           *exec.Cmd
}

// clusterID is any.
const clusterID = "MkU3OEVBNTcwNTJENDM2Qg"

// startApache starts Apache Kafka from the folder of jars in SWITCHYARD_KAFKA_JARS.
func startApache(t testing.TB, _ ...string) broker {
	t.Helper()
	jars := os.Getenv("SWITCHYARD_KAFKA_JARS")
	if jars == "" {
		t.Skip("SWITCHYARD_KAFKA_JARS names no folder with Apache Kafka's jars; `make kafka-test` fetches them")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skipf("Apache Kafka needs Java 17: %v", err)
	}
	b := &apache{dir: t.TempDir(), jars: jars, addr: testkit.FreeAddr(t), asks: testkit.FreeAddr(t), controller: testkit.FreeAddr(t)}
	if err := os.WriteFile(b.properties(), []byte(b.settings()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := b.java("kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID, "-c", b.properties()).CombinedOutput(); err != nil {
		t.Fatalf("formatting: %v\n%s", err, out)
	}
	b.Start(t)
	t.Cleanup(func() {
		if b.process != nil {
			b.Kill(t)
		}
	})
	return b
}

func (b *apache) properties() string { return filepath.Join(b.dir, "server.properties") }

func (b *apache) settings() string {
	return fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=%[3]s
listeners=PLAINTEXT://%[1]s,SASL_PLAINTEXT://%[2]s,CONTROLLER://%[3]s
advertised.listeners=PLAINTEXT://%[1]s,SASL_PLAINTEXT://%[2]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%[5]s="%[6]s";
log.dirs=%[4]s
auto.create.topics.enable=false
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
`, b.addr, b.asks, b.controller, filepath.Join(b.dir, "log"), user, password)
}

func (b *apache) java(args ...string) *exec.Cmd {
	options := []string{"-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(b.jars, "*")}
	return exec.CommandContext(context.Background(), "java", append(options, args...)...) // Kill ends it
}

// Config is how to reach the broker without a password.
func (b *apache) Config() kafka.Config { return kafka.Config{Brokers: []string{b.addr}} }

// Guarded is how to reach a listener of the same broker that asks for a password.
func (b *apache) Guarded(t testing.TB, password string) kafka.Config {
	t.Helper()
	return guarded(t, b.asks, "plain", password)
}

// Operator may do what everybody may.
func (b *apache) Operator() *kafkago.Transport { return &kafkago.Transport{} }

// Kill gives it no time to write anything.
func (b *apache) Kill(t testing.TB) {
	t.Helper()
	if err := b.process.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = b.process.Wait() // killed: an error
	b.process = nil
}

// startWithin is far more than it takes.
const startWithin = time.Minute

// Start runs the process and waits until it answers.
func (b *apache) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(b.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	b.process = b.java("kafka.Kafka", b.properties())
	b.process.Stdout, b.process.Stderr = log, log
	if err := b.process.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(startWithin); ; time.Sleep(50 * time.Millisecond) {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.addr); err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("Apache Kafka does not listen; it said:\n%s", said)
		}
	}
}
