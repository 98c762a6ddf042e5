// Porcupine's verdict on histories, to compare ours with.
//
//	go run . FILE.jsonl …        one line for each file: linearizable, illegal or unknown
//
// FILE.register.jsonl, FILE.counters.jsonl, FILE.fields.jsonl, FILE.list.jsonl and FILE.lease.jsonl are of what keys hold (objects.go); others of a
// growing output.
//
// The format and the object are those of the crate beside this folder (src/lib.rs). An append of
// several bytes is several operations, one for each byte, as the object takes effect byte by byte.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type extent [3]uint64 // chain, from, to

type line struct {
	Op        string   `json:"op"`
	Client    int      `json:"client"`
	Invoked   int64    `json:"invoked"`
	Completed *int64   `json:"completed"`
	Chain     uint64   `json:"chain"`
	From      uint64   `json:"from"`
	To        uint64   `json:"to"`
	Length    uint64   `json:"length"`
	Seen      []extent `json:"seen"`
}

// One byte of a chain; written down, each takes the same room.
const unitRoom = 8

func unit(chain, position uint64) string {
	return fmt.Sprintf("%03d.%03d;", chain%1000, position%1000)
}

type input struct {
	op       string
	chain    uint64
	position uint64
	from     uint64
	length   uint64
	seen     string
}

// The state is the output, written down.
func step(state, in, _ interface{}) (bool, interface{}) {
	output := state.(string)
	i := in.(input)
	switch i.op {
	case "append":
		held := uint64(strings.Count(output, fmt.Sprintf("%03d.", i.chain%1000)))
		return held == i.position, output + unit(i.chain, i.position)
	case "read":
		return uint64(len(output)/unitRoom) == i.length && shows(output, i), output
	default:
		return shows(output, i), output
	}
}

func shows(output string, i input) bool {
	if i.seen == "" {
		return true
	}
	at := int(i.from) * unitRoom
	return at <= len(output) && strings.HasPrefix(output[at:], i.seen)
}

func read(path string) ([][]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all [][]byte
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		text := strings.TrimSpace(scanner.Text())
		if text != "" && !strings.HasPrefix(text, "#") {
			all = append(all, []byte(text))
		}
	}
	return all, scanner.Err()
}

func operations(lines [][]byte) ([]porcupine.Operation, error) {
	var all []porcupine.Operation
	for _, text := range lines {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		// What never completed may take effect at any later time: appends at the very end always can.
		completed := int64(math.MaxInt64)
		if l.Completed != nil {
			completed = *l.Completed
		}
		add := func(i input) {
			all = append(all, porcupine.Operation{
				ClientId: l.Client, Input: i, Call: l.Invoked, Return: completed,
			})
		}
		switch l.Op {
		case "append":
			for position := l.From; position < l.To; position++ {
				add(input{op: "append", chain: l.Chain, position: position})
			}
		case "read", "peek":
			if l.Completed == nil {
				continue
			}
			seen := ""
			for _, e := range l.Seen {
				for position := e[1]; position < e[2]; position++ {
					seen += unit(e[0], position)
				}
			}
			add(input{op: l.Op, from: l.From, length: l.Length, seen: seen})
		default:
			return nil, fmt.Errorf("unknown operation %q", l.Op)
		}
	}
	return all, nil
}

// The model and the histories of a file, of which one is to be linearizable.
func histories(path string) (porcupine.Model, [][]porcupine.Operation, error) {
	lines, err := read(path)
	if err != nil {
		return porcupine.Model{}, nil, err
	}
	if object, ok := objectOf(path); ok {
		all, err := object.operations(lines)
		return object.model(), all, err
	}
	output := porcupine.Model{
		Init: func() interface{} { return "" },
		Step: step,
	}
	all, err := operations(lines)
	return output, [][]porcupine.Operation{all}, err
}

func main() {
	for _, path := range os.Args[1:] {
		model, all, err := histories(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
		verdict := "illegal"
		for _, history := range all {
			found := porcupine.CheckOperationsTimeout(model, history, 10*time.Second)
			if found == porcupine.Ok {
				verdict = "linearizable"
				break
			}
			if found == porcupine.Unknown {
				verdict = "unknown"
			}
		}
		fmt.Println(verdict)
	}
}
