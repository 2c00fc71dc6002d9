package flagvalue

import (
	"fmt"
	"testing"
)

func TestCheckPort(t *testing.T) {
	for port, good := range map[string]bool{
		"1": true, "4222": true, "65535": true,
		"": false, "0": false, "65536": false, "99999": false, "-1": false, "+1": false, "nats": false, "0x1": false,
	} {
		if err := CheckPort(port); (err == nil) != good {
			t.Errorf("%q: %v", port, err)
		}
	}
}

func TestListenAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:4222": "127.0.0.1 4222 <nil>", ":0": " 0 <nil>", "[::1]:65535": "::1 65535 <nil>",
		"4222":   " 0 it must be HOST:PORT, such as 127.0.0.1:4222",
		":":      " 0 its port must be a number from 0, which takes a free one, to 65535",
		":nats":  " 0 its port must be a number from 0, which takes a free one, to 65535",
		":65536": " 0 its port must be a number from 0, which takes a free one, to 65535",
	} {
		host, port, err := ListenAddress(address)
		if got := fmt.Sprint(host, " ", port, " ", err); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
}
