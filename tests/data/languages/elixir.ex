# Seats of a theatre. (in a comment)
defmodule Theatre.Seats do
  @moduledoc """
  Who sits where.
  """

  use GenServer
  import Enum, only: [map: 2]
  alias Theatre.{Hall, Ticket}
  require Logger

  @rows 20
  @type row :: pos_integer()
  @typep state :: %{taken: [row()]}
  @callback price(row()) :: integer()

  defstruct [:row, :number, taken: false]

  defmodule Full do
    defexception message: "in a string"
  end

  defguard is_row(value) when is_integer(value) and value in 1..20

  @doc """
  Reserve a seat.
  """
  @spec reserve(pid(), row()) :: :ok | {:error, term()}
  def reserve(server, row) when is_row(row) do
    GenServer.call(server, {:reserve, row})
  end

  @doc "How many rows there are."
  def rows, do: @rows

  @impl true
  def init(options \\ []) do
    {:ok, build(options)}
  end

  # Build the first state.
  defp build(
         options # what was asked
       ) do
    taken = Keyword.get(options, :taken, [])
    %{taken: taken |> map(&label/1)}
  end

  defp label(seat), do: "row #{seat.row} in a string"

  defmacro settle(seat) do
    quote do: label(unquote(seat))
  end

  defdelegate count(list), to: Enum
end

defprotocol Theatre.Priced do
  @doc "The price."
  def price(thing)
end

defimpl Theatre.Priced, for: Theatre.Seats do
  def price(seat), do: seat.row * 3
end
