// A fake cluster of three brokers by franz-go's kfake, for `python -m bench.fakes`: prints how many seconds it took to make
// it, and where it listens; ends with standard input.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	began := time.Now()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Since(began).Seconds(), strings.Join(cluster.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
}
