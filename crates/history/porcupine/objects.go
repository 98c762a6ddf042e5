// The objects that keys hold: those of the folder src/objects of the crate beside this one, written anew.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

type timed struct {
	Client    int             `json:"client"`
	Call      json.RawMessage `json:"call"`
	Answer    json.RawMessage `json:"answer"`
	Invoked   int64           `json:"invoked"`
	Completed *int64          `json:"completed"`
}

// A call that was never answered has the answer nil: whatever it does is right.
type asked struct{ call, answer interface{} }

// The name of what is asked, and its arguments.
func parts(call interface{}) (string, interface{}) {
	switch call := call.(type) {
	case string:
		return call, nil
	case map[string]interface{}:
		for name, arguments := range call {
			return name, arguments
		}
	}
	return "", nil
}

func is(answer interface{}, name string, value interface{}) bool {
	return answer == nil || reflect.DeepEqual(answer, map[string]interface{}{name: value})
}

const none = "\x00"

func orNone(value interface{}) string {
	if value == nil {
		return none
	}
	return value.(string)
}

func valueOf(state string) interface{} {
	if state == none {
		return nil
	}
	return state
}

func register(state string, a asked) (bool, string) {
	name, arguments := parts(a.call)
	switch name {
	case "get":
		return is(a.answer, "value", valueOf(state)), state
	case "set":
		return true, arguments.(string)
	case "replace":
		return is(a.answer, "value", valueOf(state)), arguments.(string)
	case "set-if-none":
		if state == none {
			return is(a.answer, "did", true), arguments.(string)
		}
		return is(a.answer, "did", false), state
	case "swap":
		swap := arguments.(map[string]interface{})
		return state == orNone(swap["from"]), swap["to"].(string)
	case "delete":
		return is(a.answer, "did", state != none), none
	}
	panic("unknown call " + name)
}

func counters(state string, a asked) (bool, string) {
	var held []float64
	_ = json.Unmarshal([]byte(state), &held)
	var says []interface{}
	for _, one := range a.call.([]interface{}) {
		pair := one.([]interface{})
		number := int(pair[0].(float64))
		for len(held) <= number {
			held = append(held, 0)
		}
		held[number] += pair[1].(float64)
		says = append(says, held[number])
	}
	after, _ := json.Marshal(held)
	return a.answer == nil || reflect.DeepEqual(a.answer, says), string(after)
}

func fields(state string, a asked) (bool, string) {
	held := map[string]interface{}{}
	_ = json.Unmarshal([]byte(state), &held)
	name, arguments := parts(a.call)
	right := false
	switch name {
	case "get":
		right = is(a.answer, "value", held[arguments.(string)])
	case "all":
		right = is(a.answer, "all", held)
	case "set":
		field := arguments.(map[string]interface{})["field"].(string)
		_, there := held[field]
		held[field] = arguments.(map[string]interface{})["value"]
		right = is(a.answer, "did", !there)
	case "add":
		field := arguments.(map[string]interface{})["field"].(string)
		before, _ := strconv.ParseFloat(fmt.Sprint(held[field]), 64)
		number := before + arguments.(map[string]interface{})["by"].(float64)
		held[field] = strconv.Itoa(int(number))
		right = is(a.answer, "number", number)
	case "delete":
		_, there := held[arguments.(string)]
		delete(held, arguments.(string))
		right = is(a.answer, "did", there)
	default:
		panic("unknown call " + name)
	}
	after, _ := json.Marshal(held)
	return right, string(after)
}

func list(state string, a asked) (bool, string) {
	items := []interface{}{}
	for _, item := range strings.Fields(state) {
		items = append(items, item)
	}
	name, arguments := parts(a.call)
	right := false
	switch name {
	case "all":
		right = is(a.answer, "all", items)
	case "push-back":
		items = append(items, arguments)
		right = is(a.answer, "length", float64(len(items)))
	case "push-front":
		items = append([]interface{}{arguments}, items...)
		right = is(a.answer, "length", float64(len(items)))
	case "pop-back", "pop-front":
		var popped interface{}
		if last := len(items) - 1; last >= 0 && name == "pop-back" {
			popped, items = items[last], items[:last]
		} else if last >= 0 {
			popped, items = items[0], items[1:]
		}
		right = is(a.answer, "value", popped)
	default:
		panic("unknown call " + name)
	}
	words := make([]string, len(items))
	for at, item := range items {
		words[at] = item.(string)
	}
	return right, strings.Join(words, " ")
}

// The value, and the times from which on and by which it is gone: the latter -1 where nobody can tell.
func lease(state string, a asked) (bool, string) {
	call := a.call.(map[string]interface{})
	name, arguments := parts(call["ask"])
	words := strings.Fields(state)
	isGone, isThere := true, false
	if len(words) == 3 {
		from, _ := strconv.ParseFloat(words[1], 64)
		by, _ := strconv.ParseFloat(words[2], 64)
		ended, isEnded := call["ended"].(float64)
		isGone = a.answer == nil || !isEnded || ended >= from
		isThere = by < 0 || call["begun"].(float64) <= by
	}
	switch name {
	case "take":
		if !is(a.answer, "did", true) {
			return isThere, state
		}
		take := arguments.(map[string]interface{})
		by := -1.0
		if take["gone_by"] != nil {
			by = take["gone_by"].(float64)
		}
		return isGone, fmt.Sprintf("%s %.0f %.0f", take["value"], take["gone_from"], by)
	case "get":
		if a.answer == nil {
			return true, state
		}
		if is(a.answer, "value", nil) {
			return isGone, ""
		}
		return isThere && is(a.answer, "value", words[0]), state
	case "delete":
		if a.answer == nil {
			return true, ""
		}
		if is(a.answer, "did", true) {
			return isThere, ""
		}
		return isGone, ""
	}
	panic("unknown call " + name)
}

type object struct {
	first string
	step  func(string, asked) (bool, string)
}

var objects = map[string]object{
	"register": {none, register},
	"counters": {"[]", counters},
	"fields":   {"{}", fields},
	"list":     {"", list},
	"lease":    {"", lease},
}

// The object that a file's name says: NAME.OBJECT.jsonl.
func objectOf(path string) (object, bool) {
	words := strings.Split(path, ".")
	if len(words) < 3 {
		return object{}, false
	}
	found, ok := objects[words[len(words)-2]]
	return found, ok
}

func (o object) model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return o.first },
		Step: func(state, in, _ interface{}) (bool, interface{}) {
			right, after := o.step(state.(string), in.(asked))
			return right, after
		},
	}
}

// Porcupine has every operation take effect. One that was never answered is let go at the very end: there it changes nothing that
// somebody sees. What cannot take effect in every state, a swap, is left out by a choice of its own: see below.
func (o object) operations(lines [][]byte) ([][]porcupine.Operation, error) {
	all := [][]porcupine.Operation{nil}
	for _, text := range lines {
		var t timed
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		var a asked
		if err := json.Unmarshal(t.Call, &a.call); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(t.Answer, &a.answer); err != nil {
			return nil, err
		}
		completed := int64(math.MaxInt64)
		if t.Completed != nil {
			completed = *t.Completed
		}
		operation := porcupine.Operation{ClientId: t.Client, Input: a, Call: t.Invoked, Return: completed}
		// A swap without an answer happened or not: both histories are looked at.
		name, _ := parts(a.call)
		count := len(all)
		for at := 0; at < count; at++ {
			if t.Completed == nil && name == "swap" {
				all = append(all, append([]porcupine.Operation(nil), all[at]...))
			}
			all[at] = append(all[at], operation)
		}
	}
	return all, nil
}
