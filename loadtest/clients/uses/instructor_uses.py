"""Instructor."""

import asyncio

from common import HI, MODEL, URL, refused, want


def uses():
    """Answers of a form, by instructor's modes: a class of ours comes back, whatever the model knows."""
    from enum import Enum
    from typing import Annotated, Literal, Optional, Union

    import instructor
    import openai
    from pydantic import BaseModel, Field, StringConstraints, field_validator

    Name = Annotated[str, StringConstraints(max_length=16)]
    Digit = Annotated[int, Field(ge=0, le=9)]

    class Colour(Enum):
        red, blue = "red", "blue"

    class Dog(BaseModel):
        """A dog."""
        name: Name
        age: Digit
        colour: Colour

    class Kennel(BaseModel):
        dogs: Annotated[list[Dog], Field(min_length=1, max_length=2)]
        owner: Optional[Name]

    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: Digit

    class Bird(BaseModel):
        kind: Literal["bird"]
        flies: bool

    class Pet(BaseModel):
        pet: Union[Cat, Bird]

    class Score(BaseModel):
        score: Annotated[float, Field(ge=0, le=1, multiple_of=0.25)]

    raw = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    by = {mode: instructor.from_openai(raw, mode=mode) for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA)}
    tools = by[instructor.Mode.TOOLS]
    ask = lambda of, client=tools, **k: client.chat.completions.create(**{"model": MODEL, "messages": HI, "max_tokens": 160, "temperature": 0, "max_retries": 1, "response_model": of, **k})

    def dog():
        want(isinstance(ask(Dog), Dog), "no dog")

    def strict():
        want(isinstance(ask(Dog, by[instructor.Mode.TOOLS_STRICT]), Dog), "no dog")

    def schema():
        want(isinstance(ask(Dog, by[instructor.Mode.JSON_SCHEMA]), Dog), "no dog")

    def nested():
        want(ask(Kennel).dogs, "no dogs")

    def nested_schema():
        want(ask(Kennel, by[instructor.Mode.JSON_SCHEMA]).dogs, "no dogs")

    def union():
        want(ask(Pet).pet.kind in ("cat", "bird"), "no pet")

    def enum():
        want(ask(Dog).colour in Colour, "no colour")

    def number():
        want(ask(Score).score * 4 % 1 == 0, "no quarter")

    def literal():
        want(ask(Literal["yes", "no"]) in ("yes", "no"), "neither")

    def boolean():
        want(ask(bool) in (True, False), "neither")

    def seeds():
        a, b = (ask(Dog, temperature=1, seed=s) for s in (1, 1))
        want(a.model_dump() == b.model_dump(), "equal seeds, other dogs")

    def warm():
        for s in range(5):
            want(isinstance(ask(Kennel, temperature=1.5, seed=s), Kennel), "no kennel")

    def completion():
        dog, r = tools.chat.completions.create_with_completion(model=MODEL, messages=HI, max_tokens=160, response_model=Dog)
        want(r.choices[0].message.tool_calls[0].function.name == "Dog" and isinstance(dog, Dog), r)

    def partial():
        *_, last = tools.chat.completions.create_partial(model=MODEL, messages=HI, max_tokens=160, response_model=Cat)
        want(last.kind == "cat" and last.lives is not None, last)

    def partial_schema():
        *_, last = by[instructor.Mode.JSON_SCHEMA].chat.completions.create_partial(model=MODEL, messages=HI, max_tokens=160, response_model=Cat)
        want(last.kind == "cat" and last.lives is not None, last)

    def iterable():
        class Colours(BaseModel):
            colour: Colour
        got = list(tools.chat.completions.create_iterable(model=MODEL, messages=HI, max_tokens=60, response_model=Colours))
        want(all(isinstance(x, Colours) for x in got), got)

    def validator():
        class Small(Dog):
            @field_validator("age")
            @classmethod
            def young(cls, v):
                if v > 9:
                    raise ValueError("too old")
                return v
        want(ask(Small).age <= 9, "old")

    def retries():
        from instructor.core import InstructorRetryException

        class Never(Dog):
            @field_validator("age")
            @classmethod
            def never(cls, v):
                raise ValueError("never")
        refused(lambda: ask(Never, max_retries=2), InstructorRetryException)

    def asynchronous():
        a = instructor.from_openai(openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none"), mode=instructor.Mode.TOOLS)

        async def run():
            return await asyncio.gather(*(a.chat.completions.create(model=MODEL, messages=HI, max_tokens=160, response_model=Dog, seed=s) for s in range(4)))
        want(all(isinstance(d, Dog) for d in asyncio.run(run())), "no dog")

    def provider():
        c = instructor.from_provider("openai/" + MODEL, base_url=URL + "/v1", api_key="none")
        want(isinstance(c.chat.completions.create(messages=HI, max_tokens=160, response_model=Dog), Dog), "no dog")

    return locals()
