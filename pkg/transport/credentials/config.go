package credentials

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Ports of the servers' settings.
const (
	defaultPort = 4222 // NATS's
	routePort   = 6222
)

const configHead = `# A NATS server for Switchyard, with users and TLS: nats-server -c %[1]s
# "switchyard auth init" has made this file and does not touch it again; accounts.conf
# and limits.conf are made anew by "switchyard auth rotate" and "auth update". Paths name
# this folder: change them where it lies elsewhere. Of all that was made, a server needs
# this folder only.

listen: 0.0.0.0:%[2]d
`

// clusterConfig is one server's part in a cluster.
const clusterConfig = `
server_name: %[1]q
client_advertise: %[2]q

cluster {
  name: switchyard
  listen: 0.0.0.0:%[3]d
  advertise: %[4]q
  routes: [ %[5]s ]
  # Only who has a certificate of this authority may be a server of the cluster.
  tls {
    cert_file: %[6]q
    key_file: %[7]q
    ca_file: %[8]q
    verify: true
    timeout: 10
  }
}
`

const configBody = `
# Switchyard splits what is larger.
max_payload: 8MB

# A client that hangs keeps its share of requests until it is cut off, in the third
# interval without an answer.
ping_interval: "2s"
ping_max: 2

# Nobody waits for one who reads too slowly: it loses messages instead.
no_fast_producer_stall: true

# Who does not read is cut off when a write has waited so long: a server keeps up to
# max_pending (64MB by itself) for each connection, and a tenant has --producer-conns of them.
write_deadline: "2s"

jetstream {
  store_dir: %[1]q
  include "limits.conf"   # how much its streams may take
  # Keeps what was acknowledged through a power cut; with three replicas on servers that
  # do not lose power together the default (two minutes) is enough.
  sync_interval: always
}

tls {
  cert_file: %[2]q
  key_file: %[3]q
  timeout: 10
}

include "accounts.conf"
`

// serverConfig is the settings of a NATS server of its own, or of one of a cluster's. The
// accounts are in a file beside it, which Rotate replaces.
func (f Folder) serverConfig(server string, cluster []string, at place) string {
	var b strings.Builder
	fmt.Fprintf(&b, configHead, at.file(f.ServerConfig(server)), defaultPort)
	if len(cluster) > 0 {
		var routes []string
		for _, other := range cluster {
			if other != server {
				routes = append(routes, strconv.Quote("tls://"+address(other, routePort)))
			}
		}
		fmt.Fprintf(&b, clusterConfig, server, address(server, defaultPort), routePort, address(server, routePort),
			strings.Join(routes, ", "), at.file(f.serverCert()), at.file(f.serverKey()), at.file(f.serverCA()))
	}
	fmt.Fprintf(&b, configBody, at.store, at.file(f.serverCert()), at.file(f.serverKey()))
	return b.String()
}

// place is where a server finds its files and keeps what it stores.
type place struct{ dir, store string }

func (p place) file(path string) string { return filepath.Join(p.dir, filepath.Base(path)) }

// serverPlace is the folder itself, unless the settings say otherwise.
func (m *maker) serverPlace() place {
	return place{cmp.Or(m.ServerDir, m.final.in("server")), cmp.Or(m.StoreDir, m.final.in("server", "jetstream"))}
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// leastServers is how many a cluster has at least: what is stored has three copies.
const leastServers = 3

func checkServers(servers []string) error {
	if n := len(servers); n > 0 && n < leastServers {
		return fmt.Errorf("a cluster of %d servers keeps no three copies of what it stores; name %d or more, or one with --hosts", n, leastServers)
	}
	for i, s := range servers {
		if slices.Contains(servers[:i], s) {
			return fmt.Errorf("server %q is named twice", s)
		}
	}
	return checkHosts(servers)
}

// writeServers writes the settings of the server, or of each of a cluster's.
func (m *maker) writeServers() error {
	names := m.Servers
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		if err := write(m.ServerConfig(name), []byte(m.final.serverConfig(name, m.Servers, m.serverPlace()))); err != nil {
			return err
		}
	}
	return nil
}
