package flagvalue

import "testing"

func TestIsOwnName(t *testing.T) {
	for authority, want := range map[string]bool{
		"": true, "localhost": true, "LOCALHOST:8080": true, "localhost.": true, "app.localhost:80": true, "127.0.0.1:80": true, "192.0.2.7": true, "[::1]:80": true, "[fe80::1%25eth0]": true,
		"evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example:80": false, "notlocalhost": false, "127.1": false, "0x7f000001": false, "2130706433": false,
	} {
		if got := IsOwnName(authority); got != want {
			t.Errorf("%q: %v", authority, got)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "example.org": false, "127.0.0.1:4222": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
