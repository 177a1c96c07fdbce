// Package minikafkalab starts three brokers for tests, and breaks them: copy this file into your project.
package minikafkalab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
)

// Fields of a verb, as http://.../v1/openapi.json describes them.
type Fields map[string]any

// Lab is a cluster that `minikafka up` runs until its standard input ends: it cannot outlive the tests.
type Lab struct {
	Bootstrap string `json:"bootstrap"`
	Control   struct {
		URL   string  `json:"url"`
		Token *string `json:"token"`
	} `json:"control"`
}

// Start returns when all brokers are ready, and ends them after the test. Options are further ones of `minikafka up`.
func Start(t testing.TB, options ...string) *Lab {
	t.Helper()
	program := os.Getenv("MINIKAFKA")
	if program == "" {
		program = "minikafka"
	}
	command := exec.Command(program, append([]string{
		"up", "--while-stdin", "--json", "--base-port", "0", "--control", "0", "--timeout", "120",
		"--config", "offsets.topic.num.partitions=4", "--config", "auto.create.topics.enable=false"}, options...)...)
	command.Stderr = os.Stderr
	life, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	told, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("cannot start %s (pip install minikafka, or set MINIKAFKA to where it is): %v", program, err)
	}
	t.Cleanup(func() {
		life.Close()
		command.Wait()
	})
	line, err := bufio.NewReader(told).ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s up has ended before its brokers were ready; what it said is above", program)
	}
	lab := &Lab{}
	if err := json.Unmarshal(line, lab); err != nil {
		t.Fatal(err)
	}
	return lab
}

// Verb has a verb carried out, and puts its result into what result points to (nil: nobody wants it).
func (lab *Lab) Verb(t testing.TB, name string, fields Fields, result any) {
	t.Helper()
	body, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, lab.Control.URL+"/"+name, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if lab.Control.Token != nil {
		request.Header.Set("Authorization", "Bearer "+*lab.Control.Token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var told struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatalf("%s: %s: %v", name, answer.Status, err)
	}
	if told.Error != "" {
		t.Fatalf("%s: %s", name, told.Error)
	}
	if result != nil {
		if err := json.Unmarshal(told.Result, result); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
