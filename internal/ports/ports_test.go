package ports

import "testing"

func TestCheck(t *testing.T) {
	for port, good := range map[string]bool{
		"1": true, "4222": true, "65535": true,
		"": false, "0": false, "65536": false, "99999": false, "-1": false, "+1": false, "nats": false, "0x1": false,
	} {
		if err := Check(port); (err == nil) != good {
			t.Errorf("%q: %v", port, err)
		}
	}
}
