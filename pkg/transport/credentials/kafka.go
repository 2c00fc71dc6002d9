package credentials

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// KafkaUser is who logs in at the port of a Kafka broker inside `up`.
const KafkaUser = "switchyard"

// KafkaPasswordFile is where the password for that is.
func (f Folder) KafkaPasswordFile() string { return f.in("kafka.password") }

// KafkaPassword is what the file has. It is made if it is not there.
func (f Folder) KafkaPassword() (string, error) {
	password, err := os.ReadFile(f.KafkaPasswordFile())
	if errors.Is(err, fs.ErrNotExist) {
		password = []byte(rand.Text())
		err = write(f.KafkaPasswordFile(), password)
	}
	if err != nil {
		return "", fmt.Errorf("the password for Kafka's port: %w", err)
	}
	if len(password) == 0 {
		return "", fmt.Errorf("the password for Kafka's port: %s is empty; remove it, and another one is made", f.KafkaPasswordFile())
	}
	return string(password), nil
}
