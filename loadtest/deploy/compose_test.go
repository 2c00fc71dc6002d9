package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// composed is what is looked at of a service in compose.yaml.
type composed struct {
	Image       string
	Command     []string
	Environment map[string]string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct{ Test []string }
	Volumes     []string
}

var composedNames = append(slices.Clone(deployed), "gateway")

// readCompose reads the file with a password in its place, as docker compose would.
func readCompose(t *testing.T, password string) (services map[string]composed, volumes []string) {
	t.Helper()
	data, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "${NATS_PASSWORD:?set NATS_PASSWORD}", password)
	var file struct {
		Services map[string]composed
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	return file.Services, slices.Collect(maps.Keys(file.Volumes))
}

// TestCompose wants the services, each with a command of its own name, and each to wait
// until what it needs is well.
func TestCompose(t *testing.T) {
	services, volumes := readCompose(t, "secret")
	loads := []string{"attention", "gate", "expert", "predictor", "scaler"}
	for _, name := range composedNames {
		s := services[name]
		if s.Image != "switchyard" || !slices.Equal(s.Command, []string{name}) || len(s.Healthcheck.Test) == 0 {
			t.Errorf("service %s runs %v in %q, and is well by %v", name, s.Command, s.Image, s.Healthcheck.Test)
		}
		if s.DependsOn["nats"].Condition != "service_healthy" || slices.Contains(loads, name) != (s.DependsOn["kafka"].Condition == "service_healthy") {
			t.Errorf("service %s waits for %v", name, s.DependsOn)
		}
	}
	for name, s := range services {
		for on := range s.DependsOn {
			if _, ok := services[on]; !ok || s.DependsOn[on].Condition == "service_healthy" && len(services[on].Healthcheck.Test) == 0 {
				t.Errorf("%s waits for %s, which cannot be", name, on)
			}
		}
	}
	for _, store := range []string{"nats", "kafka"} {
		if !slices.ContainsFunc(services[store].Volumes, func(v string) bool {
			name, _, _ := strings.Cut(v, ":")
			return slices.Contains(volumes, name)
		}) {
			t.Errorf("%s has no volume of its own: %v of %v", store, services[store].Volumes, volumes)
		}
	}
}

// The commands run with the variables and the settings from here, say that they are well as
// docker is to ask them, and answer.
func TestComposeProcesses(t *testing.T) {
	if testing.Short() || testkit.Race {
		t.Skip("a dozen processes, which are not raced")
	}
	programs, password := fleet.Build(t), "of-the-test"
	services, _ := readCompose(t, password)
	nats, monitor := testkit.FreeAddr(t), testkit.FreeAddr(t)
	settings := filepath.Join(t.TempDir(), "nats.conf")
	u := unit{
		name: "nats", program: filepath.Join(programs, "nats-server"), args: services["nats"].Command, env: services["nats"].Environment,
		places: []string{"/etc/nats/nats.conf", settings, "store_dir: /data", "store_dir: " + t.TempDir(), "0.0.0.0:4222", nats, "0.0.0.0:8222", monitor},
	}
	data, err := os.ReadFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	u.write(t, map[string][]byte{"nats.conf": data}, filepath.Dir(settings))
	asks := services["nats"].Healthcheck.Test
	awaitPage(t, u.start(t), strings.Replace(asks[len(asks)-1], "127.0.0.1:8222", monitor, 1))
	places := []string{"@nats:4222", "@" + nats, "kafka:9092", fleet.NewBroker(t, programs).Addr(), "jaeger:4318", testkit.FreeAddr(t)}
	program := filepath.Join(programs, "switchyard")
	var probes []func() bool
	var processes []*fleet.Process
	gateway := testkit.FreeAddr(t)
	for _, name := range composedNames {
		s := services[name]
		s.Environment["SWITCHYARD_METRICS_ADDR"] = testkit.FreeAddr(t)
		if s.Environment["SWITCHYARD_LISTEN"] != "" {
			s.Environment["SWITCHYARD_LISTEN"] = gateway
		}
		u := unit{name: name, program: program, args: s.Command, env: s.Environment, places: places}
		p := u.start(t)
		u.name, u.args = "probe", s.Healthcheck.Test[2:]
		probes, processes = append(probes, func() bool { return u.succeeds(t) }), append(processes, p)
	}
	for i, healthy := range probes {
		testkit.Eventually(t, composedNames[i]+" is well", func() bool { return processes[i].Ended() || healthy() })
		if processes[i].Ended() {
			t.Fatalf("it has ended: %s", processes[i].Tail())
		}
	}
	wantsAnswer(t, program, "--nats", "nats://switchyard:"+password+"@"+nats)
	wantsHTTPAnswer(t, gateway, "", "there was a little girl")
}
