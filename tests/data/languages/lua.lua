-- A queue of timed jobs. (in a comment)
local json = require("dkjson")
require "strict"

local MAX_JOBS <const> = 64
local opened, closed = 0, 0
VERSION = "in a string"

--- A job queue.
local Queue = {
  limit = MAX_JOBS,
  kinds = { "once", "daily" },
  describe = function(self) return self.name end,
}
Queue.__index = Queue

--- Make a queue.
-- @param name what it is called
function Queue.new(name)
  local self = setmetatable({ name = name, jobs = {} }, Queue)
  opened = opened + 1
  return self
end

-- Put a job at the end.
function Queue:push(
  job, -- what to run
  times
)
  local function allowed(count)
    return count < MAX_JOBS
  end
  if allowed(#self.jobs) then
    table.insert(self.jobs, job)
  end
end

Queue.pop = function(self)
  return table.remove(self.jobs, 1)
end

local M = { util = {} }

function M.util.trim(text)
  return (text:gsub("^%s+", ""))
end

local double = function(value) return value * 2 end

local function settle(queue)
  --[[ a long one,
       in a comment ]]
  local text = [[long in a string]]
  return M.util.trim(text), queue:pop()
end

return { Queue = Queue, settle = settle }
